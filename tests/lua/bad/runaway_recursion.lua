local k = require "kpack"

local function again(n)
  return 1 + again(n + 1)
end

return again(1)
