local k = require "kpack"

return k.target {
  name = "bad", arch = "sm_90a",
  modules = {
    k.module "m" { shadow = true, source = "a.cu", entries = { "e" }, drops = { f = "slow" } },
  },
}
