local k = require "kpack"

return k.target {
  name = "bad", arch = "sm_90a",
  modules = {
    k.module "m" {
      source = "a.cu",
      tile = { M = 1.5, N = 64 / 2 },
      entries = {
        k.entry "e" {
          block = 1,
        },
      },
    },
  },
}
