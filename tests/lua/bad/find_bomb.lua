local k = require "kpack"

local text = string.rep("a", 4 << 20)
return text:find(string.rep("a", 2 << 20) .. "b", 1, true)
