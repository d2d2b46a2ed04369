-- A function of the project that makes modules.
local helper = {}

function helper.module(k, name, entries)
  return k.module(name) { source = name .. ".cu", entries = entries }
end

return helper
