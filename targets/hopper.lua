local k = require "kpack"

-- The largest ring of a tile of `rows` rows and `columns` columns, after a header for the barriers.
local function w8a16_ring(rows, columns)
  return function(t)
    return 1024 + t["MAX_STAGES_" .. rows] * (columns + 2 * rows) * t.FP8_BLOCK
  end
end

return k.target {
  name = "hopper",
  arch = "sm_90a",
  inherits = "gb10",
  device = { compute = "9.0", sm_count = 132, smem_optin = 232448 },
  flags = { "--fmad=false" },

  levers = {
    gdn_prefill_tc = { env = "METRALE_GDN_PREFILL_TC", default = true },
  },

  modules = {
    -- The W8A16 tiles on wgmma and the bulk tensor copy. A stage holds 128 of K: 64 or 128 columns of the weight
    -- and the tile's rows of A.
    k.module "w8a16_gemm_hopper" {
      source = "w8a16_gemm_hopper.cu",
      tile = {
        FP8_BLOCK = 128, GROUP_ROWS = 8, MAX_STAGES = 16,
        MAX_STAGES_16 = 16, MAX_STAGES_32 = 13, MAX_STAGES_64 = 9, MAX_STAGES_128 = 4,
      },
      entries = {
        k.entry "w8a16_gemm_hopper_m16" {
          block = 160, smem = w8a16_ring(16, 64), limits = { spill_bytes = 0 },
          twin_of = "w8a16_gemm_pipelined_m32:w8a16_gemm_pipelined_m32", bits = "same",
        },
        k.entry "w8a16_gemm_hopper_m32" {
          block = 160, smem = w8a16_ring(32, 64), limits = { spill_bytes = 0 },
          twin_of = "w8a16_gemm_pipelined_m32:w8a16_gemm_pipelined_m32", bits = "same",
        },
        k.entry "w8a16_gemm_hopper_m64" {
          block = 160, smem = w8a16_ring(64, 64), limits = { spill_bytes = 0 },
          twin_of = "w8a16_gemm_pipelined_m64:w8a16_gemm_pipelined_m64", bits = "same",
        },
        k.entry "w8a16_gemm_hopper_m128" {
          block = 384, smem = w8a16_ring(128, 128), limits = { spill_bytes = 0 },
          twin_of = "w8a16_gemm_pipe128:w8a16_gemm_pipe128", bits = "same",
        },
      },
    },
  },
}
