local k = require "kpack"

local sizes = nil
return k.target { name = sizes.name, arch = "sm_90a", modules = {} }
