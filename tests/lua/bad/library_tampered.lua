local k = require "kpack"

string.format = nil
table.concat = nil
ipairs = nil
pairs = nil
type = nil
error = nil

return k.target { name = "bad", arch = "sm_90a", nname = 1, modules = { k.module "m" { source = "a.cu", entries = { "e" } } } }
