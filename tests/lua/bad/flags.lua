local k = require "kpack"

return k.target {
  name = "bad", arch = "sm_90a",
  flags = { "--fmad=false", "O3", "-arch=sm_80", "-I/usr/include", "", 3 },
  modules = { k.module "m" { source = "a.cu", entries = { "e" } } },
}
