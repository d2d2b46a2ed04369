local k = require "kpack"

local file = io.open("/etc/passwd")
return file:read("a")
