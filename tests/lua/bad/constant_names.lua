local k = require "kpack"

return k.target {
  name = "bad", arch = "sm_90a",
  modules = {
    k.module "m" {
      source = "a.cu",
      tile = { ["M-TILE"] = 1, ["2X"] = 2, int = 3, KPK_X = 4, 5 },
      entries = {
        k.entry "e" {
          block = 1,
        },
      },
    },
  },
}
