local k = require "kpack"

return k.target {
  name = "base",
  arch = "sm_121a",
  device = { compute = "12.1", sm_count = 48, smem_optin = 101376 },
  flags = { "--fmad=false", "-lineinfo" },
  includes = { "kernels/mine" },
  levers = {
    tensor = { env = "MY_TENSOR", default = false },
    tile = { env = "MY_TILE", default = "auto" },
    trace = { env = "MY_TRACE", default = false, kind = "presence" },
    exact = { env = "MY_EXACT", default = true, kind = "is1" },
  },
  modules = {
    k.module "fwd" {
      source = "fwd.cu", -- child has one of the same name: this one must win here and there
      flags = { "-maxrregcount=128" },
      tile = { M = 64, N = 1 << 40, LOW = math.tointeger(-2 ^ 63), ["_X9"] = -3 },
      entries = {
        k.entry "fwd_slow" { block = 256, smem = function(t) return t.M * 4 + 8 end },
        k.entry "fwd_fast" {
          block = { 32, 4 }, twin_of = "fwd:fwd_slow", bits = "same",
          limits = { registers = 128, spill_bytes = 0, stack_bytes = 16, static_smem = 1024 },
        },
      },
    },
    k.module "bwd" {
      source = "bwd.cu",
      split = true, lto = false,
      entries = {
        "bwd_plain",
        k.entry "bwd_old" {},
        k.entry "bwd_new" { twin_of = "fwd:fwd_slow", bits = "close", block = { 8, 8, 16 }, static_smem = 0 },
      },
    },
    k.module "shared" { source = "shared.cu", lto = true, entries = k.every },
  },
  expected_absent = {
    ["extra:later"] = "only newer devices have it",
    ["nowhere:never"] = "the parent's reason",
    ["other:gone"] = "gone everywhere – naïve \"quotes\" too",
  },
}
