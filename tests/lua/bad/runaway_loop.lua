local k = require "kpack"

while true do
end
