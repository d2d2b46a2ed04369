local k = require "kpack"

return k.target {
  name = "bad", arch = "sm_90a",
  modules = { k.module "p" { source = "a.cu", entries = { "e" }, lto = "yes" } },
}
