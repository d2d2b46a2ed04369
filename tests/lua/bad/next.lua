local k = require "kpack"

for key in next, { a = 1 } do
  error(key)
end
