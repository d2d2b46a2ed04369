local k = require "kpack"

return k.target { name = "bad }
