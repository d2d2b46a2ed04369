local k = require "kpack"

local function bytes(t)
  local x = t.M
  return x + nothing
end

return k.target {
  name = "bad", arch = "sm_90a",
  modules = {
    k.module "m" {
      source = "a.cu",
      tile = { M = 8 },
      entries = {
        k.entry "e" {
          smem = bytes,
        },
      },
    },
  },
}
