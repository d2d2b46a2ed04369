local k = require "kpack"

local t = k.target { name = "bad", arch = "sm_90a", modules = {} }
