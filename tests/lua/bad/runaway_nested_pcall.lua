local k = require "kpack"

local function deeper(n)
  while true do
    pcall(deeper, n + 1)
  end
end

while true do
  pcall(deeper, 1)
end
