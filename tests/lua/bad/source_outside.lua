local k = require "kpack"

return k.target {
  name = "bad", arch = "sm_90a",
  modules = {
    k.module "m" { source = "../lua/a.cu", entries = { "e" } },
    k.module "n" { source = "/etc/passwd", entries = { "e" } },
  },
}
