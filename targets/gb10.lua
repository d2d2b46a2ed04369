local k = require "kpack"

-- A ring of bf16 A tiles and E4M3 weight tiles, and the scales.
local function w8a16_tile(t)
  return t.STAGES * (t.M_TILE * t.K_STEP * 2 + t.N_TILE * t.K_STEP) + t.SCALES * 4
end

return k.target {
  name = "gb10",
  arch = "sm_121a",
  device = { compute = "12.1", sm_count = 48, smem_optin = 101376 },
  flags = { "--fmad=false" }, -- contraction decides bits

  levers = {
    -- Gated delta rule
    gdn_prefill_tc = { env = "METRALE_GDN_PREFILL_TC", default = false },
    no_gdn_prefill_tc_remnants = {
      env = "METRALE_NO_GDN_PREFILL_TC_REMNANTS", default = false, kind = "is1",
    },
    no_gdn_fwd_o_mma8 = { env = "METRALE_NO_GDN_FWD_O_MMA8", default = false, kind = "presence" },
    gdn_tma = { env = "METRALE_GDN_TMA", default = false, kind = "is1" },
    gdn_vtile = { env = "METRALE_GDN_VTILE", default = "" },
    gdn_pipe = { env = "METRALE_GDN_PIPE", default = "" },
    gdn_tc_vblock = { env = "METRALE_GDN_TC_VBLOCK", default = false, kind = "is1" },

    -- W8A16
    no_w8a16_tc_rows = { env = "METRALE_NO_W8A16_TC_ROWS", default = false, kind = "presence" },
    no_w8a16_pipe128 = { env = "METRALE_NO_W8A16_PIPE128", default = false, kind = "presence" },
    canonical_tiers = { env = "METRALE_CANONICAL_TIERS", default = false, kind = "is1" },
    row_exact_tiers = { env = "METRALE_ROW_EXACT_TIERS", default = false, kind = "is1" },
  },

  modules = {
    -- W8A16, the "tile" contract: these give equal bits. STAGES: of the cp.async ring; SCALES: K blocks whose
    -- scales are in shared memory at once; FP8_BLOCK: weights that share one scale, each way.
    k.module "w8a16_gemm_pipelined" {
      source = "w8a16_gemm_pipelined.cu",
      tile = { M_TILE = 128, N_TILE = 32, K_STEP = 32, STAGES = 3, SCALES = 64, FP8_BLOCK = 128 },
      entries = {
        k.entry "w8a16_gemm_pipelined" {
          block = 256, static_smem = w8a16_tile, limits = { spill_bytes = 0 },
        },
      },
    },
    k.module "w8a16_gemm_pipelined_m32" {
      source = "w8a16_gemm_pipelined_m32.cu",
      tile = {
        M_TILE = 32, N_TILE = 32, K_STEP = 64, STAGES = 7, SCALES = 256, FP8_BLOCK = 128,
        SKINNY_MAX_M = 16, SKINNY_MAX_K = 5120, SKINNY_N_TILE = 8,
      },
      entries = {
        k.entry "w8a16_gemm_pipelined_m32" {
          block = 256, smem = w8a16_tile, limits = { spill_bytes = 0 },
          twin_of = "w8a16_gemm_pipelined:w8a16_gemm_pipelined", bits = "same",
        },
      },
    },
    k.module "w8a16_gemm_pipelined_m64" {
      source = "w8a16_gemm_pipelined_m64.cu",
      tile = { M_TILE = 64, N_TILE = 32, K_STEP = 64, STAGES = 4, SCALES = 768, FP8_BLOCK = 128 },
      entries = {
        k.entry "w8a16_gemm_pipelined_m64" {
          block = 256, static_smem = w8a16_tile, limits = { spill_bytes = 0 },
          twin_of = "w8a16_gemm_pipelined:w8a16_gemm_pipelined", bits = "same",
        },
      },
    },
    k.module "w8a16_gemm_pipe128" {
      source = "w8a16_gemm_pipe128.cu",
      tile = {
        M_TILE = 128, N_TILE = 128, K_STEP = 32, STAGES = 3, SCALES = 256, FP8_BLOCK = 128,
        GROUP_ROWS = 8, -- row tiles that one group of the raster spans
      },
      entries = {
        k.entry "w8a16_gemm_pipe128" {
          block = 256,
          smem = function(t) -- the ring, and two tiles of decoded weights
            return w8a16_tile(t) + 2 * t.N_TILE * t.K_STEP * 2
          end,
          limits = { spill_bytes = 0 },
          twin_of = "w8a16_gemm_pipelined:w8a16_gemm_pipelined", bits = "same",
        },
      },
    },

    -- W8A16, the "rows" contract
    k.module "w8a16_tc_rows" {
      source = "w8a16_tc_rows.cu",
      tile = { N_TILE = 64, FP8_BLOCK = 128 },
      entries = {
        k.entry "w8a16_tc_rows_16" { block = 128, static_smem = 16896, limits = { spill_bytes = 0 } },
        k.entry "w8a16_tc_rows_32" { block = 128, static_smem = 17408, limits = { spill_bytes = 0 } },
        k.entry "w8a16_tc_rows_64" { block = 128, static_smem = 34816, limits = { spill_bytes = 0 } },
      },
    },
  },
}
