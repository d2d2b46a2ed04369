local k = require "kpack"

-- The W8A16 tiles of sm_90a: rows x columns of C per tile. A stage of the ring holds 128 of K; `after` bytes lie behind it.
local function w8a16_hopper(rows, columns, after, threads, twin_of)
  local name = rows .. "x" .. columns
  return k.entry("w8a16_gemm_hopper_" .. name) {
    block = threads,
    smem = function(t)
      return 1024 + t["STAGES_" .. name] * (columns + 2 * rows) * t.FP8_BLOCK + after
    end,
    limits = { spill_bytes = 0 },
    twin_of = twin_of .. ":" .. twin_of, bits = "same",
  }
end

-- Behind the ring f32 copies of the tile, which the parties that share out K hand to one another, and C's tile.
local function w8a16_tile(rows, columns, copies, threads, twin_of)
  return w8a16_hopper(rows, columns, (4 * copies + 2) * rows * columns, threads, twin_of)
end

-- Behind the ring K blocks of decoded weights, one of which C's tile takes in the end.
local function w8a16_decoded(columns, buffers, threads)
  return w8a16_hopper(64, columns, buffers * columns * 128 * 2, threads, "w8a16_gemm_pipelined_m64")
end

-- A block of the split GDN spine: stages of W, K, half of U and gc; two halves of S and of uc; four decay rows; four
-- barriers a stage.
local function gdn_split(t)
  return t.STAGES * ((2 * t.CHUNK * t.K_DIM + t.CHUNK * 64) * 2 + t.CHUNK * 4) + 2 * (t.K_DIM + t.CHUNK) * 64 * 2
    + 4 * t.CHUNK * 4 + t.STAGES * 4 * 8
end

-- A block of the one by quarters: stages of W, K, a quarter of U and twice gc; three tiles of S; four of d and uc; four
-- barriers a stage and six more; two words.
local function gdn_quarters(t)
  return t.STAGES * ((2 * t.CHUNK * t.K_DIM + t.CHUNK * 32) * 2 + 2 * t.CHUNK * 4 + 4 * 8)
    + (3 * t.K_DIM + 4 * t.CHUNK) * 32 * 2 + 6 * 8 + 8
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
    -- GROUP_ROWS: row tiles that one group of the raster spans; FP8_BLOCK: weights that share one scale, each way.
    k.module "w8a16_gemm_hopper_few" {
      source = "w8a16_gemm_hopper_few.cu",
      tile = {
        FP8_BLOCK = 128, GROUP_ROWS = 8,
        STAGES_16x16 = 32, STAGES_16x64 = 13, STAGES_16x96 = 10, STAGES_16x144 = 8,
        STAGES_32x16 = 16, STAGES_32x32 = 13, STAGES_32x64 = 9, STAGES_32x96 = 8, STAGES_32x144 = 5,
        STAGES_48x16 = 13,
      },
      entries = {
        w8a16_tile(16, 16, 16, 320, "w8a16_gemm_pipelined_m32"),
        w8a16_tile(16, 64, 16, 576, "w8a16_gemm_pipelined_m32"),
        w8a16_tile(16, 96, 8, 832, "w8a16_gemm_pipelined_m32"),
        w8a16_tile(16, 144, 4, 640, "w8a16_gemm_pipelined_m32"),
        w8a16_tile(32, 16, 32, 576, "w8a16_gemm_pipelined_m32"),
        w8a16_tile(32, 32, 16, 320, "w8a16_gemm_pipelined_m32"),
        w8a16_tile(32, 64, 8, 576, "w8a16_gemm_pipelined_m32"),
        w8a16_tile(32, 96, 4, 448, "w8a16_gemm_pipelined_m32"),
        w8a16_tile(32, 144, 4, 640, "w8a16_gemm_pipelined_m32"),
        w8a16_tile(48, 16, 12, 256, "w8a16_gemm_pipelined_m64"),
      },
    },
    k.module "w8a16_gemm_hopper" {
      source = "w8a16_gemm_hopper.cu",
      tile = {
        FP8_BLOCK = 128, GROUP_ROWS = 8,
        STAGES_128x64 = 5, STAGES_128x128 = 4,
      },
      entries = {
        w8a16_tile(128, 64, 0, 256, "w8a16_gemm_pipe128"),
        w8a16_tile(128, 128, 0, 384, "w8a16_gemm_pipe128"),
      },
    },
    k.module "w8a16_gemm_hopper_decoded" {
      source = "w8a16_gemm_hopper_decoded.cu",
      tile = { FP8_BLOCK = 128, GROUP_ROWS = 8, STAGES_64x64 = 7, STAGES_64x96 = 5, STAGES_64x136 = 4 },
      entries = {
        w8a16_decoded(64, 3, 640),
        w8a16_decoded(96, 3, 640),
        w8a16_decoded(136, 2, 512),
      },
    },

    -- GDN: the twins of _tcfuse_x2, fwd_o_hopper and recompute_wu_hopper. STAGES: chunks of W, K and U staged at once.
    k.module "gdn_spine_hopper" {
      source = "gdn_spine_hopper.cu",
      tile = { K_DIM = 128, V_DIM = 128, CHUNK = 64, STAGES = 4 },
      entries = {
        k.entry "gated_delta_rule_chunk_delta_h_tcfuse_x2_v64" {
          block = 160, smem = gdn_split, limits = { spill_bytes = 0 },
          twin_of = "gated_delta_rule_chunk_tc:gated_delta_rule_chunk_delta_h_tcfuse_x2", bits = "same",
        },
      },
    },
    k.module "gdn_spine_quarters" {
      source = "gdn_spine_quarters.cu",
      tile = { K_DIM = 128, V_DIM = 128, CHUNK = 64, STAGES = 4 },
      entries = {
        k.entry "gated_delta_rule_chunk_delta_h_tcfuse_x2_v32" {
          block = 448, smem = gdn_quarters, limits = { spill_bytes = 0 },
          twin_of = "gated_delta_rule_chunk_tc:gated_delta_rule_chunk_delta_h_tcfuse_x2", bits = "same",
        },
      },
    },
    k.module "gdn_fwd_o_persistent" {
      source = "gdn_fwd_o_persistent.cu",
      tile = { K_DIM = 128, V_DIM = 128, CHUNK = 64 },
      entries = {
        k.entry "gated_delta_rule_chunk_fwd_o_persistent" {
          block = 128,
          smem = function(t) -- Q, K and uc; two of S; two rows of gc; four barriers
            return 3 * t.CHUNK * t.K_DIM * 2 + 2 * t.K_DIM * t.V_DIM * 2 + 2 * t.CHUNK * 4 + 4 * 8
          end,
          limits = { spill_bytes = 0 },
          twin_of = "gdn_fwd_o_hopper:gated_delta_rule_chunk_fwd_o_hopper", bits = "same",
        },
      },
    },
    -- K_SLOTS, V_SLOTS: chunks of K and V in flight or in use at once.
    k.module "gdn_recompute_wu_registers" {
      source = "gdn_recompute_wu_registers.cu",
      tile = { K_DIM = 128, V_DIM = 128, CHUNK = 64, K_SLOTS = 3, V_SLOTS = 2 },
      entries = {
        k.entry "gated_delta_rule_recompute_wu_registers" {
          block = 384,
          smem = function(t) -- K and V; twice the limbs of L and T; diagonal blocks of L; gates; tiles; barriers; places
            return (t.K_SLOTS + t.V_SLOTS) * t.CHUNK * t.K_DIM * 2 + 2 * 2 * 10 * 16 * 16 * 2 + 4 * (16 * 20 + 16) * 4
              + t.K_SLOTS * 3 * t.CHUNK * 4 + 4 * 16 + (t.K_SLOTS + t.V_SLOTS + 2) * 8 + 6 * 4
          end,
          limits = { spill_bytes = 0 },
          twin_of = "gdn_recompute_wu_hopper:gated_delta_rule_recompute_wu_hopper", bits = "same",
        },
      },
    },
  },
}
