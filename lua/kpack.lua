-- What `require "kpack"` gives a description. README.md in this folder describes the language.
local host = ...
local words = host.own "words"
local quoted, suggestion = words.quoted, words.suggestion
local names = { "entry", "every", "glob", "module", "target" }

return setmetatable({
  target = host.target,             -- k.target { name = ..., arch = ..., modules = { ... } }
  module = host.named("module"),    -- k.module "name" { source = ..., entries = { ... } }
  entry = host.named("entry"),      -- k.entry "name" { block = ..., smem = ... }
  every = host.every,               -- entries = k.every: all that the compiled module has
  glob = host.glob,                 -- k.glob "kernels/mine/*.cu": one module per source
}, {
  __index = function(_, key)
    error("kpack's language has no " .. quoted(tostring(key)) .. suggestion(tostring(key), names), 2)
  end,
})
