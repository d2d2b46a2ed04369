local k = require "kpack"

return k.target {
  name = "bad", arch = "sm_90a",
  modules = {
    k.module "m" {
      source = "a.cu",
      entries = {
        "e",
        k.entry "f" { block = 32 },
        k.entry "e" { block = 64 },
      },
    },
  },
}
