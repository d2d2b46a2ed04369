local k = require "kpack"

getmetatable("").__index = nil
