local k = require "kpack"

return string.format("%s", {})
