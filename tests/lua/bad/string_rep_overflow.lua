local k = require "kpack"

return string.rep("xx", math.tointeger(2 ^ 62), "yyyyyyyy")
