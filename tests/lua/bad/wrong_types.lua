local k = require "kpack"

return k.target {
  name = 90, arch = { "sm_90a" },
  flags = "--fmad=false",
  levers = 3,
  expected_absent = { "m:x" },
  device = true,
  modules = {
    k.module "m" { source = 7, entries = "e", split = 1, tile = 128, drops = "x" },
    3,
    "m2",
  },
}
