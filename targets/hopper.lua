local k = require "kpack"

-- The W8A16 tiles of sm_90a: rows x columns of C per tile. A stage of the ring holds 128 of K; after it lie `copies` f32
-- copies of the tile, which the parties that share out K hand to one another, and C's tile.
local function w8a16_hopper(rows, columns, copies, threads, twin_of)
  local name = rows .. "x" .. columns
  return k.entry("w8a16_gemm_hopper_" .. name) {
    block = threads,
    smem = function(t)
      return 1024 + t["STAGES_" .. name] * (columns + 2 * rows) * t.FP8_BLOCK + (4 * copies + 2) * rows * columns
    end,
    limits = { spill_bytes = 0 },
    twin_of = twin_of .. ":" .. twin_of, bits = "same",
  }
end

-- A block of the split GDN spine: stages of W, K and half of U; two halves of S and of uc; four decay rows; four
-- barriers a stage.
local function gdn_split(t)
  return t.STAGES * (2 * t.CHUNK * t.K_DIM + t.CHUNK * 64) * 2 + 2 * (t.K_DIM + t.CHUNK) * 64 * 2
    + 4 * t.CHUNK * 4 + t.STAGES * 4 * 8
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
        STAGES_16x16 = 32, STAGES_16x64 = 16, STAGES_16x96 = 10, STAGES_16x144 = 8,
        STAGES_32x16 = 19, STAGES_32x32 = 16, STAGES_32x64 = 9, STAGES_32x96 = 8, STAGES_32x144 = 5,
      },
      entries = {
        w8a16_hopper(16, 16, 16, 288, "w8a16_gemm_pipelined_m32"),
        w8a16_hopper(16, 64, 8, 544, "w8a16_gemm_pipelined_m32"),
        w8a16_hopper(16, 96, 8, 800, "w8a16_gemm_pipelined_m32"),
        w8a16_hopper(16, 144, 4, 608, "w8a16_gemm_pipelined_m32"),
        w8a16_hopper(32, 16, 16, 288, "w8a16_gemm_pipelined_m32"),
        w8a16_hopper(32, 32, 8, 288, "w8a16_gemm_pipelined_m32"),
        w8a16_hopper(32, 64, 8, 544, "w8a16_gemm_pipelined_m32"),
        w8a16_hopper(32, 96, 4, 416, "w8a16_gemm_pipelined_m32"),
        w8a16_hopper(32, 144, 4, 608, "w8a16_gemm_pipelined_m32"),
      },
    },
    k.module "w8a16_gemm_hopper" {
      source = "w8a16_gemm_hopper.cu",
      tile = {
        FP8_BLOCK = 128, GROUP_ROWS = 8,
        STAGES_64x64 = 7, STAGES_64x128 = 6, STAGES_64x192 = 5, STAGES_128x64 = 5, STAGES_128x128 = 4,
      },
      entries = {
        w8a16_hopper(64, 64, 2, 384, "w8a16_gemm_pipelined_m64"),
        w8a16_hopper(64, 128, 0, 384, "w8a16_gemm_pipelined_m64"),
        w8a16_hopper(64, 192, 0, 512, "w8a16_gemm_pipelined_m64"),
        w8a16_hopper(128, 64, 0, 256, "w8a16_gemm_pipe128"),
        w8a16_hopper(128, 128, 0, 384, "w8a16_gemm_pipe128"),
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
    k.module "gdn_fwd_o_persistent" {
      source = "gdn_fwd_o_persistent.cu",
      tile = { K_DIM = 128, V_DIM = 128, CHUNK = 64 },
      entries = {
        k.entry "gated_delta_rule_chunk_fwd_o_persistent" {
          block = 256,
          smem = function(t) -- Q, K and uc; S; limbs of kq; two rows of gc; three barriers
            return 3 * t.CHUNK * t.K_DIM * 2 + t.K_DIM * t.V_DIM * 2 + 2 * t.CHUNK * t.CHUNK * 2
              + 2 * t.CHUNK * 4 + 3 * 8
          end,
          limits = { spill_bytes = 0 },
          twin_of = "gdn_fwd_o_hopper:gated_delta_rule_chunk_fwd_o_hopper", bits = "same",
        },
      },
    },
    k.module "gdn_recompute_wu_registers" {
      source = "gdn_recompute_wu_registers.cu",
      tile = { K_DIM = 128, V_DIM = 128, CHUNK = 64, PITCH_T = 72, PITCH_X = 24 },
      entries = {
        k.entry "gated_delta_rule_recompute_wu_registers" {
          block = 256,
          smem = function(t) -- K and V; limbs of L; L; limbs of T; gc and two rows of scales
            return 2 * t.CHUNK * t.K_DIM * 2 + 2 * (t.CHUNK * t.PITCH_T * 2) + t.CHUNK * t.PITCH_X * 4
              + 2 * (t.CHUNK * t.PITCH_X * 2) + 3 * t.CHUNK * 4
          end,
          limits = { spill_bytes = 0 },
          twin_of = "gdn_recompute_wu_hopper:gated_delta_rule_recompute_wu_hopper", bits = "same",
        },
      },
    },
  },
}
