local k = require "kpack"
return k.target {
  name = "bad", arch = "sm_90a",
  flags = { "-DCHUNK=32", "-DOTHER=1", "-DCHUNK_SIZE=2" },
  modules = {
    k.module "m" {
      source = "a.cu",
      flags = { "--define-macro=ROWS", "-DROW=4" },
      tile = { CHUNK = 64, ROWS = 8 },
      entries = { "fwd" },
    },
  },
}
