local k = require "kpack"

return k.target "hopper"
