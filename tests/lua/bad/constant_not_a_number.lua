local k = require "kpack"

return k.target {
  name = "bad", arch = "sm_90a",
  modules = {
    k.module "m" {
      source = "a.cu",
      tile = { M = "128", N = 32 },
      entries = {
        k.entry "e" {
          block = 1,
        },
      },
    },
  },
}
