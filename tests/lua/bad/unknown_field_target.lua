local k = require "kpack"

return k.target {
  name = "bad", arch = "sm_90a",
  colour = "red",
  modules = { k.module "m" { source = "a.cu", entries = { "e" } } },
}
