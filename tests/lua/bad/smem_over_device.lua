local k = require "kpack"

return k.target {
  name = "bad", arch = "sm_90a", device = { smem_optin = 232448 },
  modules = {
    k.module "m" {
      source = "a.cu",
      entries = {
        k.entry "e" {
          smem = 300000,
        },
      },
    },
  },
}
