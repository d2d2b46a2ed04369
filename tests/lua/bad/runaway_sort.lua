local k = require "kpack"

local list = {}
for i = 1, 100000 do
  list[i] = (i * 7919) % 100003
end
while true do
  table.sort(list)
  list[1], list[#list] = list[#list], list[1]
end
