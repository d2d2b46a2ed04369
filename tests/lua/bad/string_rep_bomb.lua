local k = require "kpack"

local text = ("x"):rep(1 << 40)
return text
