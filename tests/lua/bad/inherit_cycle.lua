local k = require "kpack"

return k.target {
  name = "bad", arch = "sm_90a",
  inherits = "parent_cycle",
  modules = { k.module "m" { source = "a.cu", entries = { "e" } } },
}
