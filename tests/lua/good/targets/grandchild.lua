local k = require "kpack"

return k.target {
  name = "grandchild",
  arch = "sm_100f",
  inherits = "child",
  modules = {
    k.module "fwd" {
      shadow = true,
      source = "fwd.cu", -- its own folder has none: the nearest parent's
      entries = { "fwd_fast", "fwd_slow", "bwd_old" },
    },
  },
  expected_absent = { ["bwd:bwd_old"] = "in module fwd now" },
}
