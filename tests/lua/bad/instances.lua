local k = require "kpack"

return k.target {
  name = "bad", arch = "sm_90a", warnings = "errors",
  modules = {
    k.module "m" {
      source = "a.cu", split = true, warnings = true, entries = k.every,
    },
    k.module "n" {
      source = "a.cu",
      entries = {
        k.entry "empty" { expression = "" },
        k.entry "lines" { expression = "a<\n>" },
        k.entry "number" { expression = 3, limits = { seconds = 0.5, code_bytes = -1 } },
      },
    },
  },
}
