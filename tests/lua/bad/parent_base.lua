local k = require "kpack"

return k.target {
  name = "base", arch = "sm_80",
  modules = {
    k.module "m" { source = "a.cu", entries = { "e", "f" } },
    k.module "all" { source = "a.cu", entries = k.every },
  },
  expected_absent = { ["m:gone"] = "never written" },
}
