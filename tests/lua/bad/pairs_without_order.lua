local k = require "kpack"

for key in pairs({ [{}] = 1 }) do
  error(key)
end
