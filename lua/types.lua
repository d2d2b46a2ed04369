-- The types of schema.lua that need no other table: each is a function (value, where, what, context)
-- that returns the value for the C side, or nil after it reported what is wrong.
local host = ...
local words = host.own "words"
local report, wrong, inside = words.report, words.wrong, words.inside
local quoted, suggestion = words.quoted, words.suggestion
local names_of, items_of = words.names_of, words.items_of
local find, format, sub = string.find, string.format, string.sub

local types = {}

-- Names and other strings of one form. `is_key`: the value is the key that
-- `what` shows already.
local function text_type(pattern, expected)
  return function(value, where, what, is_key)
    if type(value) == "string" and find(value, pattern) then
      return value
    elseif is_key == true then
      report(where, "%s is wrong, expected %s", what, expected)
    else
      wrong(where, what, value, expected)
    end
  end
end

types.name = text_type("^[A-Za-z0-9_][A-Za-z0-9_.+-]*$", "a name of ASCII letters, digits, '_', '-', '+' and '.'")
types.identifier = text_type("^[A-Za-z_][A-Za-z0-9_]*$", "an ASCII identifier")
types.symbol = text_type("^[A-Za-z_][A-Za-z0-9_]*$", "the kernel's symbol: an ASCII identifier")
types.expression = text_type("^[A-Za-z_:&(][^%c]*$", "the kernel's C++ name, such as 'ops::scale<float, 4>'")
types.variable = text_type("^[A-Za-z_][A-Za-z0-9_]*$", "the name of an environment variable: an ASCII identifier")
types.twin = text_type("^[A-Za-z0-9_][A-Za-z0-9_.+-]*:[A-Za-z_][A-Za-z0-9_]*$", "'module:entry'")

local arch_text = text_type("^sm_[1-9]%d+[af]?$", "an architecture such as 'sm_90', 'sm_90a' or 'sm_100f'")
local first_with = { a = 90, f = 100 } -- CUDA has no older architecture with that suffix

function types.arch(value, where, what)
  local arch = arch_text(value, where, what)
  local number, suffix = string.match(arch or "", "^sm_(%d+)([af])$")
  if number and tonumber(number) < first_with[suffix] then
    wrong(where, what, value, format("no '%s', which is for sm_%d and later", suffix, first_with[suffix]))
    return
  end
  return arch
end

types.compute = text_type("^[1-9]%d?%.%d$", "a compute capability as a string, such as '9.0'")

function types.boolean(value, where, what)
  if type(value) == "boolean" then
    return value
  end
  wrong(where, what, value, "true or false")
end

local function integer(value, where, what, least, most, expected)
  if math.type(value) == "integer" and value >= least and value <= most then
    return value
  end
  local hint = ""
  if math.type(value) == "float" and value == math.floor(value) then
    hint = " (a float: whole division is '//')"
  end
  wrong(where, what, value, expected .. hint)
end

local UINT32_MAX = 4294967295

function types.positive(value, where, what)
  return integer(value, where, what, 1, UINT32_MAX, "a positive integer")
end

function types.bytes(value, where, what)
  return integer(value, where, what, 0, UINT32_MAX, "a number of bytes: an integer from 0")
end

function types.registers(value, where, what)
  return integer(value, where, what, 1, 255, "an integer from 1 to 255")
end

local function one_of(...)
  local names = { ... }
  return function(value, where, what)
    for _, name in ipairs(names) do
      if value == name then
        return value
      end
    end
    local expected = "'" .. table.concat(names, "', '", 1, #names - 1) .. "' or '" .. names[#names] .. "'"
    local near = type(value) == "string" and host.nearest(value, names)
    wrong(where, what, value, expected .. (near and format(" (did you mean '%s'?)", near) or ""))
  end
end

types.bits = one_of("same", "close")
types.warnings = one_of("show", "error")
types.kind = one_of("switch", "is1", "presence", "text")

function types.default(value, where, what)
  if type(value) == "boolean" or (type(value) == "string" and host.utf8(value)) then
    return value
  end
  wrong(where, what, value, "true, false or a string")
end

function types.reason(value, where, what)
  if type(value) == "string" and find(value, "%S") and host.utf8(value) then
    return value
  end
  wrong(where, what, value, "the reason as UTF-8 text")
end

-- Paths are relative to the project root and stay inside it.
function types.path(value, where, what)
  if type(value) ~= "string" or value == "" or find(value, "%c") or not host.utf8(value) then
    wrong(where, what, value, "a path relative to the project root")
  elseif sub(value, 1, 1) == "/" or find("/" .. value .. "/", "/../", 1, true) then
    wrong(where, what, value, "a path relative to the project root, inside it")
  else
    return value
  end
end

function types.paths(value, where, what)
  local paths = {}
  for i, item in ipairs(items_of(value, where, what, "a list of folders")) do
    local spot = inside(where, i)
    local path = types.path(item, spot, { "folder %d in %s", i, of = what })
    paths[#paths + 1] = path and { path = path, place = spot }
  end
  return paths
end

-- Options that another field stands for.
local owned_flags = {
  { "^%-%-?gpu%-architecture", "the target's 'arch'" },
  { "^%-arch", "the target's 'arch'" },
  { "^%-I", "'includes'" },
  { "^%-%-?include%-path", "'includes'" },
}

function types.flags(value, where, what)
  local flags = {}
  for i, item in ipairs(items_of(value, where, what, "a list of compiler options")) do
    local spot, name = inside(where, i), { "option %d in %s", i, of = what }
    if type(item) ~= "string" or not find(item, "^%-[^%c]+$") or not host.utf8(item) then
      wrong(spot, name, item, "a compiler option that starts with '-'")
    else
      flags[#flags + 1] = item
      for _, owned in ipairs(owned_flags) do
        if find(item, owned[1]) then
          report(spot, "%s is %s: use %s for that", name, quoted(item), owned[2])
        end
      end
    end
  end
  return flags
end

function types.block(value, where, what)
  local expected = "a number of threads or {x, y, z}, 1024 at most"
  if type(value) == "number" then
    value = { value }
  end
  if type(value) ~= "table" then
    return wrong(where, what, value, expected)
  elseif #value < 1 or #value > 3 then
    return report(where, "%s has %d sizes, expected %s", what, #value, expected)
  end
  local block, product = { 1, 1, 1 }, 1
  for i, size in ipairs(items_of(value, where, what, expected)) do
    if not integer(size, #value > 1 and inside(where, i) or where, what, 1, UINT32_MAX, expected) then
      return
    end
    block[i] = size
    product = math.min(product, 1024) * size
  end
  if product > 1024 then
    return report(where, "%s has %s threads, expected 1024 at most", what,
      #value > 1 and format("%d x %d x %d", block[1], block[2], block[3]) or format("%d", block[1]))
  end
  if block[3] > 64 then
    return report(where, "%s is %d deep, expected 64 at most in z", what, block[3])
  end
  return block
end

-- ---- Constants and sizes ----------------------------------------------------------------------------

local cpp_words = {}
for word in string.gmatch([[alignas alignof and and_eq asm auto bitand bitor bool break case catch char
    class compl const constexpr const_cast continue decltype default delete do double dynamic_cast else
    enum explicit export extern false float for friend goto if inline int long mutable namespace new
    noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast
    return short signed sizeof static static_assert static_cast struct switch template this thread_local
    throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor
    xor_eq]], "%a[A-Za-z0-9_]*") do
  cpp_words[word] = true
end

function types.tile(value, where, what)
  if type(value) ~= "table" then
    return wrong(where, what, value, "a table of constants: { NAME = INTEGER }")
  end
  local list, good = {}, true
  for _, name in ipairs(names_of(value, where, what)) do
    local spot, label = inside(where, name), { "constant %s in %s", name, of = what }
    if not find(name, "^[A-Za-z_][A-Za-z0-9_]*$") or cpp_words[name] or sub(name, 1, 4) == "KPK_" then
      good = false
      report(spot, "the name of %s is no ASCII identifier that a kernel may use (C++ words and KPK_ are taken)",
        label)
    end
    local number = integer(value[name], spot, label, math.mininteger, math.maxinteger, "an integer")
    good = good and number ~= nil
    list[#list + 1] = { name = name, value = number }
  end
  return good and list or nil
end

-- The table that a size's function sees: reading a constant that is not there is an error.
local function constants_for(tile)
  local values, names = {}, {}
  for _, constant in ipairs(tile) do
    values[constant.name] = constant.value
    names[#names + 1] = constant.name
  end
  return setmetatable(values, {
    __index = function(_, key)
      local name = tostring(key)
      local hint = #names > 0 and suggestion(name, names) or ""
      error(format("'tile' has no constant %s%s", quoted(name), hint), 2)
    end,
  })
end

function types.size(value, where, what, context)
  local expected = "a number of bytes, or a function of the constants that gives one"
  local result = value
  if type(value) == "function" then
    if context.places.tile and not context.tile then
      return -- the constants are wrong, which was said
    end
    local ok, message, file, line
    ok, result, message, file, line = host.try(value, constants_for(context.tile or {}))
    if not ok then
      report(file and { file = file, line = line, exact = true } or where, "%s failed: %s", what, message)
      return
    end
    expected = "a number of bytes from its function"
  end
  return integer(result, where, what, 0, UINT32_MAX, expected)
end

return types
