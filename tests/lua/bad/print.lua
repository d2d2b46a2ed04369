local k = require "kpack"

print("hello")
