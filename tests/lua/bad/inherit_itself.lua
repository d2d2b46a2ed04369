local k = require "kpack"

return k.target {
  name = "bad", arch = "sm_90a",
  inherits = "inherit_itself",
  modules = { k.module "m" { source = "a.cu", entries = { "e" } } },
}
