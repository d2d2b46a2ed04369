-- What `require "kpack"` gives a description. README.md in this folder describes the language.
local host = ...

return {
  target = host.target,             -- k.target { name = ..., arch = ..., modules = { ... } }
  module = host.named("module"),    -- k.module "name" { source = ..., entries = { ... } }
  entry = host.named("entry"),      -- k.entry "name" { block = ..., smem = ... }
  every = host.every,               -- entries = k.every: all that the compiled module has
  glob = host.glob,                 -- k.glob "kernels/mine/*.cu": one module per source
}
