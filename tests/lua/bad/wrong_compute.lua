local k = require "kpack"

return k.target {
  name = "bad", arch = "sm_90a",
  device = { compute = "9.1" },
  modules = { k.module "m" { source = "a.cu", entries = { "e" } } },
}
