local k = require "kpack"

local list = {}
while true do
  pcall(function()
    list[#list + 1] = string.rep("x", 1 << 20) .. #list
  end)
end
