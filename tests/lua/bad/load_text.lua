local k = require "kpack"

return load("return 1")()
