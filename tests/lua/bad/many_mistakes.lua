local k = require "kpack"

return k.target {
  name = "bad", arch = "sm_9", inherit = "gb10",
  device = { compute = "9", sm_count = 0 },
  modules = {
    k.module "fwd" {
      source = "a.cu",
      stages = 3,
      tile = { M = 1, N = true },
      entries = {
        k.entry "x" { block = 2048, twin_of = "fwd:y" },
        k.entry "x" { block = 32 },
      },
    },
    k.module "bwd" { source = "b.cu", entreies = k.every },
  },
  expected_absent = { ["fwd:x"] = "twice wrong" },
}
