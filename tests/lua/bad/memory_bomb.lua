local k = require "kpack"

local list = {}
while true do
  list[#list + 1] = { list }
end
