local k = require "kpack"

return k.target {
  name = "bad", arch = "sm_90a",
  inherits = "parent_base",
  modules = {
    k.module "all" { shadow = true, source = "a.cu", entries = { "e" } },
    k.module "m" { shadow = true, source = "a.cu", entries = k.every },
  },
}
