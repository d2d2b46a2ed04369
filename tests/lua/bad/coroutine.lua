local k = require "kpack"

local run = coroutine.wrap(function()
  while true do
  end
end)
run()
