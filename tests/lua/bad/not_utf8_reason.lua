local k = require "kpack"

return k.target {
  name = "bad", arch = "sm_90a",
  modules = { k.module "m" { source = "a.cu", entries = { "e" } } },
  expected_absent = { ["m:x"] = "because \xff", ["m:y"] = "", ["m:z"] = 3 },
}
