local k = require "kpak"
return k
