local k = require "kpack"

os.execute("true")
