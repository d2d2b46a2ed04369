local k = require "kpack"

return k.target {
  name = "instances", arch = "sm_90a", warnings = "error",
  modules = {
    k.module "fwd" {
      source = "kernels/base/common/fwd.cu",
      entries = {
        k.entry "scale_f4" { expression = "ops::scale<float, 4>", block = 64 },
        k.entry "scale_any" {
          expression = "&(::ops::scale<Kind::a, \"x\">)",
          limits = { dynamic_smem = 1024, code_bytes = 4096, seconds = 30 },
        },
        "plain",
      },
    },
    k.module "lenient" { source = "kernels/base/common/fwd.cu", warnings = "show", entries = k.every },
  },
}
