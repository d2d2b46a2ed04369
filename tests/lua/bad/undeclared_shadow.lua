local k = require "kpack"

return k.target {
  name = "bad", arch = "sm_90a",
  inherits = "parent_base",
  modules = {
    k.module "m" { source = "a.cu", entries = { "e", "f" } },
  },
}
