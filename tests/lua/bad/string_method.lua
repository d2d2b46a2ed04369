local k = require "kpack"

return ("x"):dump()
