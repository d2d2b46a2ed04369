local x = require "../secrets"
return x
