-- Places in a description and the words of messages, for types.lua and check.lua. These files run with
-- all of Lua's libraries, which descriptions cannot reach; string methods (s:find) are theirs, so they
-- are not used here.
local host = ...
local marks = host.marks
local format, sub = string.format, string.sub

-- ---- Places ---------------------------------------------------------------------------------------

-- A place is a constructor's mark or the file's result (file, line, name), or a step into one: a field
-- or a position (up, key). `owner`: whose field it is, for messages.
local function inside(where, key, value, owner)
  local mark = type(value) == "table" and marks[value]
  return mark or { up = where, key = key, owner = owner }
end

-- ---- Words ----------------------------------------------------------------------------------------

local function quoted(text)
  if #text > 60 then
    text = sub(text, 1, 57) .. "..."
  end
  return "'" .. host.printable(text) .. "'"
end

-- What a message speaks of, put into words only when there is a message: a text; a field's place; a
-- thing { kind = "entry", name = "x" }; or { "words %s of %s", part, of = outer }.
local function say(what)
  if type(what) ~= "table" then
    return what
  elseif what.owner then
    return format("'%s' of %s", what.key, say(what.owner))
  elseif what.of then
    local part = what[2]
    return format(what[1], type(part) == "string" and quoted(part) or part, say(what.of))
  end
  return what.kind .. " " .. (what.name and quoted(what.name) or format("number %d", what.position or 1))
end

local function report(where, text, ...)
  local args = table.pack(...)
  for i = 1, args.n do
    args[i] = say(args[i])
  end
  host.report(where, format(text, table.unpack(args, 1, args.n)))
end

local function shown(value)
  local kind = type(value)
  if value == nil then
    return "nothing"
  elseif value == host.every then
    return "k.every"
  elseif marks[value] then
    return "a k." .. marks[value].kind
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

local function suggestion(word, names)
  local near = host.nearest(word, names)
  if near then
    return format(" (did you mean '%s'?)", near), near
  end
  return format(" (expected one of: %s)", table.concat(names, ", "))
end

-- Keys of a table that is to have names for keys, in byte order; another kind of key is reported.
local function names_of(value, where, what)
  local names, first = {}, nil
  for key in next, value do
    if type(key) == "string" then
      names[#names + 1] = key
    elseif first == nil or (math.type(key) == "integer" and math.type(first) == "integer" and key < first) then
      first = key
    end
  end
  if first ~= nil then
    report(inside(where, first, value[first]), "%s holds %s without a name, expected only NAME = VALUE fields",
      what, shown(value[first]))
  end
  table.sort(names)
  return names
end

-- Items 1..n of a list. A hole and a field with a name, either of which would hide something, are
-- reported.
local function items_of(value, where, what, expected)
  if type(value) ~= "table" or value == host.every or (marks[value] and marks[value].kind ~= "glob") then
    wrong(where, what, value, expected)
    return {}
  end
  local last, items, names = 0, {}, {}
  for key in next, value do
    if math.type(key) == "integer" and key >= 1 then
      last = math.max(last, key)
    else
      names[#names + 1] = type(key) == "string" and key or shown(key)
    end
  end
  table.sort(names)
  for _, name in ipairs(names) do
    report(inside(where, name, value[name]), "%s holds the field %s, expected %s", what, quoted(name), expected)
  end
  for i = 1, last do
    if value[i] == nil then
      report(where, "%s has nothing at position %d, expected %s", what, i, expected)
      break
    end
    items[i] = value[i]
  end
  return items
end

return {
  inside = inside,
  report = report,
  quoted = quoted,
  shown = shown,
  wrong = wrong,
  suggestion = suggestion,
  names_of = names_of,
  items_of = items_of,
}
