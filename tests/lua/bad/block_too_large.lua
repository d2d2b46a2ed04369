local k = require "kpack"

return k.target {
  name = "bad", arch = "sm_90a",
  modules = {
    k.module "m" {
      source = "a.cu",
      entries = {
        k.entry "a" { block = 1025 },
        k.entry "b" { block = { 32, 8, 8 } },
        k.entry "c" { block = { 1, 1, 65 } },
        k.entry "d" { block = { 1, 2, 3, 4 } },
        k.entry "e" { block = { x = 32, 1 } },
        k.entry "f" { block = {} },
        k.entry "g" { block = { 32, 0 } },
      },
    },
  },
}
