local k = require "kpack"

return k.target {
  name = "bad", arch = "sm_90a",
  inherits = "parent_big",
  device = { smem_optin = 101376 },
  modules = {},
}
