local k = require "kpack"
return k.target {
  name = "t",
  arch = "sm_90f",
  modules = { k.module "m" { source = "a.cu", entries = k.every } },
}
