local k = require "kpack"

return k.target {
  name = "bad", arch = "sm_90a",
  modules = {
    k.module "m" {
      source = "a.cu",
      tile = { M = 8 },
      entries = {
        k.entry "e" {
          smem = function(t)
            error("no size for " .. t.M)
          end,
        },
      },
    },
  },
}
