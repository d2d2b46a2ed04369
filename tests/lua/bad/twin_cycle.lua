local k = require "kpack"

return k.target {
  name = "bad", arch = "sm_90a",
  modules = {
    k.module "m" {
      source = "a.cu",
      entries = {
        k.entry "a" { twin_of = "m:b", bits = "same" },
        k.entry "b" { twin_of = "m:c", bits = "same" },
        k.entry "c" { twin_of = "m:a", bits = "same" },
        k.entry "d" { twin_of = "m:a", bits = "close" },
      },
    },
  },
}
