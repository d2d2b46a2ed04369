local k = require "kpack"

return k.target {
  name = "bad", arch = "sm_90a",
  levers = {
    a = { env = "A" },
    b = { env = "B", default = true, kind = "tex" },
    c = { env = "C", default = true, kind = "text" },
    d = { env = "D", default = "x", kind = "is1" },
    e = { env = "E-E", default = true },
    f = { env = "F", default = 3 },
    g = "G",
    ["h i"] = { env = "H", default = true },
  },
  modules = { k.module "m" { source = "a.cu", entries = { "e" } } },
}
