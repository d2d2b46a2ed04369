-- What the sandbox offers, used to build a description; pairs has one order in every run.
local k = require "kpack"

local names, entries = { gamma = 3, alpha = 1, beta = 2, [10] = "ten", [2] = "two" }, {}
for key, value in pairs(names) do
  entries[#entries + 1] = k.entry(string.format("e_%s_%s", key, value)) { block = 32 * math.max(1, tonumber(value) or 0) }
end
table.insert(entries, 1, "first")
table.sort(entries, function(a, b)
  return type(a) == "string" and type(b) ~= "string"
end)
local ok, why = pcall(error, "caught")
assert(not ok and why:find("caught", 1, true) and select("#", table.unpack({ 1, 2, 3 })) == 3)
assert(("a,b"):gsub(",", ";") == "a;b" and ("x"):rep(3) == "xxx" and tostring({}) == "table")
assert(tostring(1.5) == "1.5" and ("A"):lower():byte() == 97 and ("k=v"):match("^(%w+)=") == "k")

return k.target {
  name = "computed", arch = "sm_90a",
  modules = { k.module "m" { source = "shared.cu", entries = entries } },
}
