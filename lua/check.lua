-- Checks what a description returned against schema.lua and hands plain values to the C side. Every
-- mistake is reported with its place, and the walk goes on. It runs with all of Lua's libraries, which
-- descriptions cannot reach; string methods (s:find) are theirs, so they are not used here.
local host, schema = ...
local marks = host.marks
local find, format, match, sub = string.find, string.format, string.match, string.sub

local check_table
local types = {}

-- ---- Places ---------------------------------------------------------------------------------------

-- A place: a constructor call or the file's result (file, line, name), then steps into it.
local function inside(where, key, value)
  local mark = type(value) == "table" and marks[value]
  if mark then
    return { file = mark.file, line = mark.line, name = mark.name }
  end
  local place = { file = where.file, line = where.line, name = where.name }
  for i, step in ipairs(where) do
    place[i] = step
  end
  place[#place + 1] = key
  return place
end

local function report(where, text, ...)
  host.report(where, format(text, ...))
end

local function place(where)
  local file, line, col = host.place(where)
  return { file = file, line = line, col = col }
end

-- ---- Words ----------------------------------------------------------------------------------------

local function quoted(text)
  if #text > 60 then
    text = sub(text, 1, 57) .. "..."
  end
  return "'" .. host.printable(text) .. "'"
end

local function shown(value)
  local kind = type(value)
  if value == nil then
    return "nothing"
  elseif value == host.every then
    return "k.every"
  elseif kind == "string" then
    return "the string " .. quoted(value)
  elseif kind == "number" then
    local whole = math.type(value) == "float" and value == math.floor(value)
    return "the number " .. format(math.type(value) == "integer" and "%d" or whole and "%.1f" or "%.14g", value)
  elseif kind == "boolean" then
    return tostring(value)
  end
  return "a " .. kind
end

local function wrong(where, what, value, expected)
  report(where, "%s is %s, expected %s", what, shown(value), expected)
end

-- "'block' of entry 'x'"
local function field(name, owner)
  return format("'%s' of %s", name, owner)
end

local function suggestion(word, names)
  local near = host.nearest(word, names)
  if near then
    return format(" (did you mean '%s'?)", near)
  end
  return format(" (expected one of: %s)", table.concat(names, ", "))
end

-- Keys of a table that is to have names for keys, in order; others are reported.
local function names_of(value, where, what)
  local names = {}
  for key in next, value do
    if type(key) == "string" then
      names[#names + 1] = key
    end
  end
  table.sort(names)
  for key, item in next, value do
    if type(key) ~= "string" then
      report(inside(where, key, item), "%s holds %s without a name, expected only NAME = VALUE fields",
        what, shown(item))
      break
    end
  end
  return names
end

-- Items 1..n of a list; a field with a name in it is reported.
local function items_of(value, where, what, expected)
  if type(value) ~= "table" or (marks[value] and marks[value].kind ~= "glob") then
    wrong(where, what, value, expected)
    return {}
  end
  local count, items = 0, {}
  for key in next, value do
    if math.type(key) == "integer" and key > count then
      count = key
    elseif type(key) == "string" then
      report(inside(where, key), "%s holds the field %s, expected %s", what, quoted(key), expected)
    end
  end
  -- A hole would make one of its items vanish.
  for i = 1, math.min(count, #value + 1) do
    if value[i] == nil then
      report(where, "%s has nothing at position %d, expected %s", what, i, expected)
      break
    end
  end
  for i = 1, #value do
    items[i] = value[i]
  end
  return items
end

-- ---- Simple types: each returns the value for the C side, or nil after a report ---------------------

local function text_type(pattern, expected)
  return function(value, where, what)
    if type(value) == "string" and find(value, pattern) then
      return value
    end
    wrong(where, what, value, expected)
  end
end

types.name = text_type("^[%w_][%w_.+-]*$", "a name of ASCII letters, digits, '_', '-', '+' and '.'")
types.symbol = text_type("^[%a_][%w_]*$", "the kernel's symbol: an ASCII identifier")
types.variable = text_type("^[%a_][%w_]*$", "the name of an environment variable: an ASCII identifier")
types.twin = text_type("^[%w_][%w_.+-]*:[%a_][%w_]*$", "'module:entry'")
local identifier = text_type("^[%a_][%w_]*$", "an ASCII identifier")

function types.arch(value, where, what)
  if type(value) == "string" and find(value, "^sm_[1-9]%d+[af]?$") then
    return value
  end
  wrong(where, what, value, "an architecture such as 'sm_90a'")
end

function types.compute(value, where, what)
  if type(value) == "string" and find(value, "^[1-9]%d?%.%d$") then
    return value
  end
  wrong(where, what, value, "a compute capability as a string, such as '9.0'")
end

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
types.kind = one_of("switch", "is1", "presence", "text")

function types.default(value, where, what)
  if type(value) == "boolean" or (type(value) == "string" and host.utf8(value)) then
    return value
  end
  wrong(where, what, value, "true, false or a string")
end

local function reason(value, where, what)
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
    local path = types.path(item, inside(where, i), format("folder %d in %s", i, what))
    paths[#paths + 1] = path and { path = path, place = place(inside(where, i)) }
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
    local spot, name = inside(where, i), format("option %d in %s", i, what)
    if type(item) ~= "string" or not find(item, "^%-[^%c]+$") or not host.utf8(item) then
      wrong(spot, name, item, "a compiler option that starts with '-'")
    else
      flags[#flags + 1] = item
      for _, owned in ipairs(owned_flags) do
        if find(item, owned[1]) then
          report(spot, "%s is %s, which %s says", name, quoted(item), owned[2])
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
  if type(value) ~= "table" or #value < 1 or #value > 3 then
    return wrong(where, what, value, expected)
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
    xor_eq]], "%a[%w_]*") do
  cpp_words[word] = true
end

function types.tile(value, where, what)
  if type(value) ~= "table" then
    return wrong(where, what, value, "a table of constants: { NAME = INTEGER }")
  end
  local list, good = {}, true
  for _, name in ipairs(names_of(value, where, what)) do
    local spot, label = inside(where, name), format("constant %s in %s", quoted(name), what)
    if not find(name, "^[%a_][%w_]*$") or cpp_words[name] or sub(name, 1, 4) == "KPK_" then
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

-- ---- Tables -----------------------------------------------------------------------------------------

-- Checks value against the schema of `kind`; returns the fields that were right and the places of all
-- that were given.
function check_table(kind, value, where, owner, context)
  local places, known, by_name = {}, {}, {}
  local fields = { places = places }
  for i, entry in ipairs(schema[kind]) do
    known[i] = entry[1]
    by_name[entry[1]] = entry
  end
  for _, name in ipairs(names_of(value, where, owner)) do
    if not by_name[name] then
      report(inside(where, name, value[name]), "unknown field %s in %s%s", quoted(name), owner,
        suggestion(name, known))
    end
  end
  for _, entry in ipairs(schema[kind]) do
    local name, item = entry[1], value[entry[1]]
    if item ~= nil then
      local spot = inside(where, name)
      places[name] = place(spot)
      fields[name] = types[entry[2]](item, spot, field(name, owner), context or fields)
    elseif entry[3] then
      report(where, "%s has no '%s'", owner, name)
    end
  end
  return fields
end

function types.device(value, where, what)
  if type(value) ~= "table" then
    return wrong(where, what, value, "a table: { compute = '9.0', sm_count = ..., smem_optin = ... }")
  end
  return check_table("device", value, where, "'device'")
end

function types.limits(value, where, what)
  if type(value) ~= "table" then
    return wrong(where, what, value, "a table of limits, such as { spill_bytes = 0 }")
  end
  return check_table("limits", value, where, what)
end

function types.levers(value, where, what)
  if type(value) ~= "table" then
    return wrong(where, what, value, "a table of levers: { name = { env = ..., default = ... } }")
  end
  local list = {}
  for _, name in ipairs(names_of(value, where, what)) do
    local item, spot, owner = value[name], inside(where, name, value[name]), "lever " .. quoted(name)
    local named = identifier(name, spot, "the name of " .. owner)
    if type(item) ~= "table" then
      wrong(spot, owner, item, "a table: { env = ..., default = ... }")
    elseif named then
      local lever = check_table("lever", item, spot, owner)
      local text = type(lever.default) == "string"
      lever.name, lever.place = name, place(spot)
      if lever.default ~= nil and not item.kind then
        lever.kind = text and "text" or "switch"
      end
      if lever.default ~= nil and lever.kind and text ~= (lever.kind == "text") then
        wrong(inside(spot, "default"), field("default", owner), lever.default,
          text and format("true or false, as its kind is '%s'", lever.kind) or "a string, as its kind is 'text'")
      end
      list[#list + 1] = lever
    end
  end
  return list
end

function types.absents(value, where, what)
  if type(value) ~= "table" then
    return wrong(where, what, value, "a table: { ['module:entry'] = 'reason' }")
  end
  local list = {}
  for _, name in ipairs(names_of(value, where, what)) do
    local spot = inside(where, name)
    local ok = types.twin(name, spot, format("key %s in %s", quoted(name), what))
    local why = reason(value[name], spot, format("the reason of %s in %s", quoted(name), what))
    if ok and why then
      local module, entry = match(name, "^(.-):(.*)$")
      list[#list + 1] = { module = module, entry = entry, reason = why, place = place(spot) }
    end
  end
  return list
end

function types.drops(value, where, what)
  if type(value) ~= "table" then
    return wrong(where, what, value, "a table: { entry = 'reason' }")
  end
  local list = {}
  for _, name in ipairs(names_of(value, where, what)) do
    local spot = inside(where, name)
    local ok = types.symbol(name, spot, format("key %s in %s", quoted(name), what))
    local why = reason(value[name], spot, format("the reason of %s in %s", quoted(name), what))
    if ok and why then
      list[#list + 1] = { name = name, reason = why, place = place(spot) }
    end
  end
  return list
end

-- The fields and the title of a module or entry: one from its constructor has its name in the mark.
local function named_table(kind, value, where, position)
  local mark = marks[value]
  if not mark or mark.kind == "glob" then
    local name = type(value.name) == "string" and quoted(value.name)
    return value, format("%s %s", kind, name or format("number %d", position))
  end
  local owner = format("%s %s", mark.kind, quoted(mark.name or "?"))
  if mark.kind ~= kind then
    report(where, "%s stands where a k.%s is expected", mark.kind == "target" and "a target" or owner, kind)
    return
  end
  local copy = {}
  for key, item in next, value do
    copy[key] = item
  end
  if copy.name ~= nil and copy.name ~= mark.name then
    wrong(inside(where, "name"), field("name", owner), copy.name, quoted(mark.name))
  end
  copy.name = mark.name
  return copy, owner
end

local function check_entry(value, where, position, context)
  if type(value) == "string" then
    local name = types.symbol(value, where, format("entry number %d", position))
    return name and { name = name, place = place(where), places = {} }
  end
  if type(value) ~= "table" or value == host.every then
    return wrong(where, format("entry number %d", position), value, "a name or k.entry 'name' { ... }")
  end
  local body, owner = named_table("entry", value, where, position)
  if not body then
    return
  end
  local entry = check_table("entry", body, where, owner, context)
  entry.place = place(where)
  if body.twin_of ~= nil and body.bits == nil then
    report(inside(where, "twin_of"), "%s has 'twin_of' without 'bits', expected bits = 'same' or 'close'", owner)
  elseif body.bits ~= nil and body.twin_of == nil then
    report(inside(where, "bits"), "%s has 'bits' without 'twin_of', expected both or neither", owner)
  end
  if entry.twin_of then
    entry.twin_module, entry.twin_entry = match(entry.twin_of, "^(.-):(.*)$")
  end
  local least, most = entry.static_smem, entry.limits and entry.limits.static_smem
  if least and most and least > most then
    report(inside(where, "static_smem"), "%s declares %d bytes of static shared memory and limits them to %d",
      owner, least, most)
  end
  return entry
end

-- Reports the second of two things with one name.
local function once(seen, name, where, owner)
  if seen[name] then
    report(where, "%s is declared twice, first at line %d", owner, seen[name].line)
    return false
  end
  seen[name] = place(where)
  return true
end

function types.entries(value, where, what, context)
  if value == host.every then
    return { every = true }
  end
  local list, seen = {}, {}
  local items = items_of(value, where, what, "a list of entries, or k.every")
  for i, item in ipairs(items) do
    local spot = inside(where, i, item)
    local entry = check_entry(item, spot, i, context)
    if entry and entry.name and once(seen, entry.name, spot, "entry " .. quoted(entry.name)) then
      list[#list + 1] = entry
    end
  end
  if type(value) == "table" and not marks[value] and next(value) == nil then
    report(where, "%s is empty, expected at least one entry, or k.every", what)
  end
  return list
end

function types.modules(value, where, what)
  local list, seen, items, spots = {}, {}, {}, {}
  for i, item in ipairs(items_of(value, where, what, "a list of modules")) do
    local spot = inside(where, i, item)
    if type(item) == "table" and marks[item] and marks[item].kind == "glob" then
      for j, one in ipairs(item) do
        items[#items + 1], spots[#spots + 1] = one, inside(spot, j, one)
      end
    else
      items[#items + 1], spots[#spots + 1] = item, spot
    end
  end
  for i, item in ipairs(items) do
    if type(item) ~= "table" or item == host.every then
      wrong(spots[i], format("module number %d", i), item, "k.module 'name' { ... }")
    else
      local body, owner = named_table("module", item, spots[i], i)
      if body then
        local module = check_table("module", body, spots[i], owner)
        module.place = place(spots[i])
        if module.name and once(seen, module.name, spots[i], "module " .. quoted(module.name)) then
          list[#list + 1] = module
        end
      end
    end
  end
  return list
end

-- ---- The whole ------------------------------------------------------------------------------------

local function check_compute(target, where)
  local compute = target.device and target.device.compute
  if compute and target.arch then
    local major, minor = match(target.arch, "^sm_(%d+)(%d)")
    local expected = major .. "." .. minor
    if compute ~= expected then
      report(inside(inside(where, "device"), "compute"), "'compute' is '%s', expected '%s' as the arch is '%s'",
        compute, expected, target.arch)
    end
  end
end

return function(path, ...)
  local result, where = ..., { file = path, line = 0 }
  if type(result) ~= "table" then
    local found = select("#", ...) == 0 and "nothing" or shown(result)
    return report({ file = path }, "the description returns %s, expected the table of k.target { ... }", found)
  end
  local mark = marks[result]
  if mark then
    where = { file = mark.file, line = mark.line, name = mark.name }
    if mark.kind ~= "target" then
      return report(where, "the description returns a %s, expected the table of k.target { ... }", mark.kind)
    end
  end
  local owner = type(result.name) == "string" and "target " .. quoted(result.name) or "the target"
  local target = check_table("target", result, where, owner)
  target.place = place(where)
  check_compute(target, where)
  if type(result.modules) == "table" and next(result.modules) == nil and not marks[result.modules]
      and not result.inherits then
    report(inside(where, "modules"), "'modules' of %s is empty, expected at least one module", owner)
  end
  return target
end
