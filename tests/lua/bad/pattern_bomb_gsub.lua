local k = require "kpack"

local text = string.rep("a", 3000)
for i = 1, 100 do
  text:gsub(".-.-.-b", "")
end
