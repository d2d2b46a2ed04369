local k = require "kpack"

return k.target {
  name = "bad", arch = "sm_90a",
  modules = {
    m = k.module "m" { source = "a.cu", entries = { "e" } },
  },
}
