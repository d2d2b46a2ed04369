-- Checks what a description returned against schema.lua and hands plain values to the C side. Every
-- mistake is reported with its place, and the walk goes on.
local host = ...
local marks = host.marks
local schema, words, types = host.own "schema", host.own "words", host.own "types"
local report, wrong, inside, place = words.report, words.wrong, words.inside, words.place
local quoted, shown, field, suggestion = words.quoted, words.shown, words.field, words.suggestion
local names_of, items_of = words.names_of, words.items_of
local format, match = string.format, string.match

-- Checks value against the schema of `kind`; returns the fields that were right and the places of all
-- that were given.
local function check_table(kind, value, where, owner, context)
  local places, known, by_name, misspelt = {}, {}, {}, {}
  local fields = { places = places }
  for i, entry in ipairs(schema[kind]) do
    known[i] = entry[1]
    by_name[entry[1]] = entry
  end
  for _, name in ipairs(names_of(value, where, owner)) do
    if not by_name[name] then
      local hint, near = suggestion(name, known)
      report(inside(where, name, value[name]), "unknown field %s in %s%s", quoted(name), owner, hint)
      misspelt[near or ""] = true
    end
  end
  for _, entry in ipairs(schema[kind]) do
    local name, item = entry[1], value[entry[1]]
    if item ~= nil then
      local spot = inside(where, name)
      places[name] = place(spot)
      fields[name] = types[entry[2]](item, spot, field(name, owner), context or fields)
    elseif entry[3] and not misspelt[name] then
      report(where, "%s has no '%s', which it needs", owner, name)
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
    local named = types.identifier(name, spot, "the name of " .. owner, true)
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
    local ok = types.twin(name, spot, format("key %s in %s", quoted(name), what), true)
    local why = types.reason(value[name], spot, format("the reason of %s in %s", quoted(name), what))
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
    local ok = types.symbol(name, spot, format("key %s in %s", quoted(name), what), true)
    local why = types.reason(value[name], spot, format("the reason of %s in %s", quoted(name), what))
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
    local first = seen[name]
    report(where, "%s is declared twice, first at %s:%d", owner, first.file, first.line)
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
