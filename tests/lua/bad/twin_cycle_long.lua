-- A cycle of a hundred twins, and one that leads into it.
local k = require "kpack"
local entries = {
  k.entry "before" { block = 32, twin_of = "m:e050", bits = "same" },
}
for i = 0, 99 do
  entries[#entries + 1] = k.entry(("e%03d"):format(i)) {
    block = 32,
    twin_of = ("m:e%03d"):format((i + 1) % 100),
    bits = "same",
  }
end
return k.target {
  name = "twin_cycle_long",
  arch = "sm_90a",
  modules = { k.module "m" { source = "a.cu", entries = entries } },
}
