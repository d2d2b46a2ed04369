local k = require "kpack"

return tostrnig(3)
