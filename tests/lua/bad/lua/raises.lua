local helper = {}

function helper.module(n)
  return n .. nil
end

return helper
