local k = require "kpack"

return dofile("/etc/passwd")
