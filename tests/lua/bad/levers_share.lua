local k = require "kpack"

return k.target {
  name = "bad", arch = "sm_90a",
  levers = {
    a = { env = "SAME", default = true },
    b = { env = "SAME", default = "x" },
  },
  modules = { k.module "m" { source = "a.cu", entries = { "e" } } },
}
