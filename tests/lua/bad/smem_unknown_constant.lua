local k = require "kpack"

return k.target {
  name = "bad", arch = "sm_90a",
  modules = {
    k.module "m" {
      source = "a.cu",
      tile = { M_TILE = 8 },
      entries = {
        k.entry "e" {
          smem = function(t) return t.M_TIEL * 2 end,
        },
      },
    },
  },
}
