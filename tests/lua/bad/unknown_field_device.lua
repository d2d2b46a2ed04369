local k = require "kpack"

return k.target {
  name = "bad", arch = "sm_90a",
  device = { sm_cuont = 132 },
  modules = { k.module "m" { source = "a.cu", entries = { "e" } } },
}
