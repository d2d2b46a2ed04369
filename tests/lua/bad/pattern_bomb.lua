local k = require "kpack"

local text = string.rep("a", 40)
return text:find("a*a*a*a*a*a*a*a*a*a*b")
