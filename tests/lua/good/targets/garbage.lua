-- More garbage than the memory cap, small and large, while little is kept.
local k = require "kpack"

local kept, size = {}, 0
for i = 1, 1000000 do
  local pair = { i, i + 1 }
  kept[i % 100 + 1] = pair
end
for i = 1, 40 do
  size = size + #(string.rep("x", 4 << 20) .. i)
end

return k.target {
  name = "garbage", arch = "sm_90a",
  modules = { k.module "m" { source = "shared.cu", tile = { SIZE = size }, entries = { "e" } } },
}
