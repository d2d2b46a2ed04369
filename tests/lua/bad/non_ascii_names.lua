local k = require "kpack"

return k.target {
  name = "höpper", arch = "sm_90a",
  modules = {
    k.module "größe" { source = "a.cu", entries = { "e" } },
    k.module "m" { source = "a.cu", entries = { "größe", "ok" }, tile = { ["Ж"] = 1 } },
  },
}
