local k = require "kpack"

return k.target {
  name = "hopper",
  arch = "sm_90a",
  inherits = "gb10",
  device = { compute = "9.0", sm_count = 132, smem_optin = 232448 },
  flags = { "--fmad=false" },

  levers = {
    gdn_prefill_tc = { env = "METRALE_GDN_PREFILL_TC", default = true },
  },

  modules = {},
}
