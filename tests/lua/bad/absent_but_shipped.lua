local k = require "kpack"

return k.target {
  name = "bad", arch = "sm_90a",
  inherits = "parent_base",
  modules = {},
  expected_absent = { ["m:e"] = "not here", ["m:other"] = "true enough" },
}
