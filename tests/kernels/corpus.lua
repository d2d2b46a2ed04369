-- Kernels as projects write them, compiled as nvcc compiles them: corpus.t.
local k = require "kpack"

-- Templates have no entries of their own: each instance is asked for by its C++ name.
local instances = {
  templates = {
    k.entry "scale_f4" { expression = "ops::scale<float, 4>" },
    k.entry "scale_d2" { expression = "ops::scale<double, 2>" },
    k.entry "add_wide" { expression = "ops::combine<ops::kind::add, ops::wide>" },
    k.entry "multiply_wide" { expression = "ops::combine<ops::kind::multiply, ops::wide>" },
    k.entry "plain" { expression = "ops::plain" },
  },
  template_rows = {
    k.entry "sum_half" { expression = "row_sum<__half, 256, false>" },
    k.entry "mean_bf16" { expression = "row_sum<__nv_bfloat16, 128, true>" },
    k.entry "mean_float" { expression = "row_sum<float, 64, true>" },
  },
}

local modules = k.glob "corpus/*.cu"
for _, module in ipairs(modules) do
  local stem = module.source:match "([%w_]+)%.cu$"
  module.entries = instances[stem] or module.entries
end
return k.target { name = "corpus", arch = "sm_90a", modules = modules }
