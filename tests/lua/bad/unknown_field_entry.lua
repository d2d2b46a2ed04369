local k = require "kpack"

return k.target {
  name = "bad", arch = "sm_90a",
  modules = {
    k.module "m" {
      source = "a.cu",
      entries = {
        k.entry "e" {
          blockk = 256,
        },
      },
    },
  },
}
