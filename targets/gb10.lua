local k = require "kpack"

-- A ring of bf16 A tiles and E4M3 weight tiles, and the scales.
local function w8a16_tile(t)
  return t.STAGES * (t.M_TILE * t.K_STEP * 2 + t.N_TILE * t.K_STEP) + t.SCALES * 4
end

-- GDN: a chunk's W, K and U in `slots` slots of bf16 rows, and what goes with each slot.
local function gdn_slots(t, slots)
  return slots * (t.CHUNK * (2 * t.K_DIM + t.V_DIM) * 2)
end

local function gdn_double(t) -- two slots with their gc and decay rows
  return gdn_slots(t, 2) + 2 * t.CHUNK * 4 + 2 * (t.CHUNK + 1) * 4
end

local function gdn_single(t) -- one slot with its decay row
  return gdn_slots(t, 1) + (t.CHUNK + 1) * 4
end

local function gdn_fwd_o(t) -- q, k, kq, uc, S, and gc with its exponentials
  return 2 * t.CHUNK * t.K_DIM * 2 + t.CHUNK * t.CHUNK * 4 + t.CHUNK * t.V_DIM * 2
    + t.K_DIM * t.V_DIM * 2 + 2 * t.CHUNK * 4
end

-- GDN tiles on the tensor cores: rows of K_DIM are PITCH elements apart, rows of CHUNK PITCH_T.
local gdn_tile = { K_DIM = 128, V_DIM = 128, CHUNK = 64, PITCH = 136, PITCH_T = 72 }

local function gdn_tc(t) -- a limb of S (then K), W, U, d, the decay row
  return t.K_DIM * t.PITCH * 2 + 2 * (t.CHUNK * t.PITCH * 2) + t.K_DIM * t.PITCH_T * 2
    + (t.CHUNK + 1) * 4
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

    -- GDN: the chunked gated delta rule. _ksplit, _vfused, _pipe and _tma give equal bits. CHUNK: tokens;
    -- DV_BLK: value columns of one _tc_vblock block.
    k.module "gated_delta_rule_fla" {
      source = "gated_delta_rule_fla.cu",
      tile = { K_DIM = 128, V_DIM = 128, CHUNK = 64, DV_BLK = 64 },
      entries = {
        k.entry "gated_delta_rule_recompute_wu" {
          block = 256,
          smem = function(t) -- k, L, gc
            return t.CHUNK * t.K_DIM * 2 + t.CHUNK * t.CHUNK * 4 + t.CHUNK * 4
          end,
          limits = { spill_bytes = 0 },
        },
        k.entry "gated_delta_rule_chunk_delta_h_ksplit" {
          block = 256, smem = gdn_double, limits = { spill_bytes = 0 },
        },
        k.entry "gated_delta_rule_chunk_delta_h_vfused" {
          block = 256, smem = gdn_single, limits = { spill_bytes = 0 },
          twin_of = "gated_delta_rule_fla:gated_delta_rule_chunk_delta_h_ksplit", bits = "same",
        },
        k.entry "gated_delta_rule_chunk_delta_h_pipe" {
          block = 256, smem = gdn_double, limits = { spill_bytes = 0 },
          twin_of = "gated_delta_rule_fla:gated_delta_rule_chunk_delta_h_ksplit", bits = "same",
        },
        k.entry "gated_delta_rule_chunk_delta_h_tma" {
          block = 256, smem = gdn_double, limits = { spill_bytes = 0 },
          twin_of = "gated_delta_rule_fla:gated_delta_rule_chunk_delta_h_ksplit", bits = "same",
        },
        k.entry "gated_delta_rule_chunk_delta_h_vtile" {
          block = 512, smem = gdn_single, limits = { spill_bytes = 0 },
          twin_of = "gated_delta_rule_fla:gated_delta_rule_chunk_delta_h_ksplit", bits = "close",
        },
        k.entry "gated_delta_rule_chunk_delta_h_tc_vblock" {
          block = 256,
          smem = function(t) -- the snapshot, ws, two slots of W (then K) and U, gc and decay rows
            return t.DV_BLK * t.K_DIM * 2 + t.CHUNK * t.DV_BLK * 4
              + 2 * (t.CHUNK * t.K_DIM + t.CHUNK * t.DV_BLK) * 2
              + 2 * t.CHUNK * 4 + 2 * (t.CHUNK + 1) * 4
          end,
          limits = { spill_bytes = 0 },
          twin_of = "gated_delta_rule_fla:gated_delta_rule_chunk_delta_h_ksplit", bits = "close",
        },
        k.entry "gated_delta_rule_chunk_fwd_o" {
          block = 512, smem = gdn_fwd_o, limits = { spill_bytes = 0 },
        },
      },
    },
    k.module "gdn_chunk_fwd_o_mma8" {
      source = "gdn_chunk_fwd_o_mma8.cu",
      tile = { K_DIM = 128, V_DIM = 128, CHUNK = 64 },
      entries = {
        k.entry "gated_delta_rule_chunk_fwd_o_mma8" {
          block = 512, smem = gdn_fwd_o, limits = { spill_bytes = 0 },
          twin_of = "gated_delta_rule_fla:gated_delta_rule_chunk_fwd_o", bits = "same",
        },
      },
    },

    -- GDN on the tensor cores: used where the lever gdn_prefill_tc asks for it, as hopper does by default.
    -- _tcfuse, with one bf16 limb, misses the accuracy rule that _tcfuse_x2 meets: it is here to show it.
    k.module "gated_delta_rule_chunk_tc" {
      source = "gated_delta_rule_chunk_tc.cu",
      tile = gdn_tile,
      entries = {
        k.entry "gated_delta_rule_chunk_delta_h_tcfuse" {
          block = 256, smem = gdn_tc, limits = { spill_bytes = 0 },
          twin_of = "gated_delta_rule_fla:gated_delta_rule_chunk_delta_h_ksplit", bits = "close",
        },
        k.entry "gated_delta_rule_chunk_delta_h_tcfuse_x2" {
          block = 256, smem = gdn_tc, limits = { spill_bytes = 0 },
          twin_of = "gated_delta_rule_fla:gated_delta_rule_chunk_delta_h_ksplit", bits = "close",
        },
      },
    },
    k.module "gdn_recompute_wu_hopper" {
      source = "gdn_recompute_wu_hopper.cu",
      -- PITCH_X: of 16-column tiles
      tile = { K_DIM = 128, V_DIM = 128, CHUNK = 64, PITCH = 136, PITCH_T = 72, PITCH_X = 24 },
      entries = {
        k.entry "gated_delta_rule_recompute_wu_hopper" {
          block = 512,
          smem = function(t) -- k; L and T in f32; limbs of L, of T and of 16 warps' X; gc
            return t.CHUNK * t.PITCH * 2 + 2 * (t.CHUNK * t.PITCH_X * 4)
              + 2 * (t.CHUNK * t.PITCH_T * 2) + 2 * (t.CHUNK * t.PITCH_X * 2)
              + 2 * (16 * 16 * t.PITCH_X * 2) + t.CHUNK * 4
          end,
          limits = { spill_bytes = 0 },
          twin_of = "gated_delta_rule_fla:gated_delta_rule_recompute_wu", bits = "close",
        },
      },
    },
    k.module "gdn_fwd_o_hopper" {
      source = "gdn_fwd_o_hopper.cu",
      tile = gdn_tile,
      entries = {
        k.entry "gated_delta_rule_chunk_fwd_o_hopper" {
          block = 512,
          smem = function(t) -- q, k, S, uc, a limb of kq, gc
            return 2 * (t.CHUNK * t.PITCH * 2) + t.K_DIM * t.PITCH * 2 + t.K_DIM * t.PITCH_T * 2
              + t.CHUNK * t.PITCH_T * 2 + t.CHUNK * 4
          end,
          limits = { spill_bytes = 0 },
          twin_of = "gated_delta_rule_fla:gated_delta_rule_chunk_fwd_o", bits = "close",
        },
      },
    },
  },
}
