local k = require "kpack"

local text = string.rep("x", 8 << 20)
while true do
  local _ = text .. text
end
