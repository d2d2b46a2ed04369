local k = require "kpack"
return k.target {
  name = "t", arch = "sm_90a",
  modules = { k.modulee "x" { source = "x.cu", entries = k.every } },
}
