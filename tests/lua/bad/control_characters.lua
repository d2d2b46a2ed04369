local k = require "kpack"

return k.target {
  name = "bad", arch = "sm_90a",
  modules = {
    k.module "m\27[31m" { source = "a.cu", entries = { "e\0f", "g\n" } },
  },
}
