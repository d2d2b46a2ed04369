local k = require "kpack"

xpcall(error, function()
  while true do
  end
end)
