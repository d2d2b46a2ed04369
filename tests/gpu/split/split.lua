-- One source three times: whole, linked whole, and each entry linked by itself (tests/gpu/split.py compares them).
local k = require "kpack"

local function entries()
  return {
    k.entry "axpy" { block = 256 }, k.entry "axpy_strided" { block = 256 }, k.entry "permute" { block = 256 },
    k.entry "total" { block = 256, smem = 65536 },
    k.entry "scaled_3" { block = 256, expression = "scaled<3>" }, k.entry "scaled_5" { block = 256, expression = "scaled<5>" },
  }
end

return k.target { name = "split", arch = "sm_90a", flags = { "--fmad=false" }, modules = {
  k.module "whole" { source = "./split.cu", entries = entries() },
  k.module "linked" { source = "./split.cu", entries = entries(), lto = true },
  k.module "split" { source = "./split.cu", entries = entries(), split = true },
} }
