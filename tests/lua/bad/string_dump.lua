local k = require "kpack"

return string.dump(function() end)
