local k = require "kpack"

local LIMITS = { spil_bytes = 0 }

local function module(name)
  return k.module(name) {
    source = "a.cu",
    entries = { k.entry "e" { block = 0, limits = LIMITS } },
  }
end

return k.target { name = "bad", arch = "sm_90a", modules = { module "m" } }
