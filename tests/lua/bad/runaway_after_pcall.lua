local k = require "kpack"

pcall(function()
  while true do
  end
end)
return k.target { name = "bad", arch = "sm_90a", modules = {} }
