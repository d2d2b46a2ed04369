local k = require "kpack"

return loadfile("/etc/passwd")
