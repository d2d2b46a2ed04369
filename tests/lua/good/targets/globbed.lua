local k = require "kpack"

local mine = k.glob "kernels/mine/*.cu"
for _, module in ipairs(mine) do
  module.flags = { "-DFROM=" .. module.source:match("[^/]+$") }
end

return k.target {
  name = "globbed", arch = "sm_90",
  modules = {
    k.module "zz" { source = "shared.cu", entries = { "e" } },
    mine,
    k.glob "kernels/*/sub/?.cu",
  },
}
