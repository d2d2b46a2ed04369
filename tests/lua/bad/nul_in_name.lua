local k = require "kpack"

return k.target {
  name = "bad", arch = "sm_90a",
  modules = { k.module "m\0n" { source = "a.cu", entries = { "e" } } },
}
