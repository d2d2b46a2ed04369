local k = require "kpack"

collectgarbage("stop")
