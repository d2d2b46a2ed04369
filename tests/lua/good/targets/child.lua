local k = require "kpack"
local helper = require "helper"
local sizes = require "shapes.sizes"

return k.target {
  name = "child",
  arch = "sm_90a",
  inherits = "base",
  device = { smem_optin = 232448 },
  flags = { "--fmad=false" },
  levers = { tensor = { env = "MY_TENSOR", default = true } },
  modules = {
    helper.module(k, "extra", { "later" }),
    k.module "bwd" {
      shadow = true,
      source = "kernels/base/common/bwd.cu",
      includes = { "kernels/with space" },
      entries = {
        "bwd_plain",
        k.entry "bwd_new" { smem = sizes.large, block = 1024 },
      },
      drops = { bwd_old = "nobody calls it" },
    },
    k.module "odd" { source = "kernels/with space/it's.cu", entries = { "e" } },
  },
  expected_absent = { ["nowhere:never"] = "the child's reason" },
}
