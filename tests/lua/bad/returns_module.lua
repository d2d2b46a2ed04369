local k = require "kpack"

return k.module "m" { source = "a.cu", entries = { "e" } }
