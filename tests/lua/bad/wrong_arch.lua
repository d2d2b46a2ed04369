local k = require "kpack"

return k.target {
  name = "bad", arch = "compute_90",
  modules = { k.module "m" { source = "a.cu", entries = { "e" } } },
}
