local k = require "kpack"

return string.format("%p", "x")
