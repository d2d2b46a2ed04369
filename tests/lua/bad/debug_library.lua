local k = require "kpack"

debug.sethook()
