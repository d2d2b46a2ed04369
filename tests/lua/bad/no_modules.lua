local k = require "kpack"

return k.target {
  name = "bad", arch = "sm_90a",
  modules = {},
}
