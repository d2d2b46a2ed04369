local k = require "kpack"

return k.target {
  name = "bad", arch = "sm_90a",
  modules = {
    k.module "m" {
      source = "a.cu",
      entries = {
        k.entry "e" {
          block = -32, smem = -1, static_smem = -2, limits = { registers = 0, spill_bytes = -1 },
        },
      },
    },
  },
}
