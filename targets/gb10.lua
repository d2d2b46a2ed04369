local k = require "kpack"

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
    k.module "w8a16_gemm_pipelined" {
      source = "w8a16_gemm_pipelined.cu",
      tile = {
        M_TILE = 128, N_TILE = 32, K_STEP = 32,
        STAGES = 3,      -- of the cp.async ring
        SCALES = 64,     -- K blocks whose scales are in shared memory at once
        FP8_BLOCK = 128, -- weights that share one scale, each way
      },
      entries = {
        k.entry "w8a16_gemm_pipelined" {
          block = 256,
          static_smem = function(t)
            local a, b = t.M_TILE * t.K_STEP * 2, t.N_TILE * t.K_STEP
            return t.STAGES * (a + b) + t.SCALES * 4
          end,
          limits = { spill_bytes = 0 },
        },
      },
    },
  },
}
