-- Checks what a description returned against schema.lua and hands plain values to the C side. Every
-- mistake is reported with its place, and the walk goes on.
local host = ...
local marks = host.marks
local schema, words, types = host.own "schema", host.own "words", host.own "types"
local report, wrong, inside = words.report, words.wrong, words.inside
local quoted, shown, suggestion = words.quoted, words.shown, words.suggestion
local names_of, items_of = words.names_of, words.items_of
local format, match = string.format, string.match

local known, required_of = {}, {}
for kind, fields in next, schema do
  known[kind], required_of[kind] = {}, {}
  for i, field in ipairs(fields) do
    known[kind][i], required_of[kind][field[1]] = field[1], field[3] or false
  end
end

-- Reports the fields that the schema does not know; returns those that they may stand for.
local function check_unknown(kind, value, where, owner)
  local misspelt = {}
  for _, name in ipairs(names_of(value, where, owner)) do
    if required_of[kind][name] == nil then
      local hint, near = suggestion(name, known[kind])
      report(inside(where, name, value[name]), "unknown field %s in %s%s", quoted(name), owner, hint)
      misspelt[near or ""] = true
    end
  end
  return misspelt
end

-- Checks a table against the schema of `kind`; returns the fields that were right and the places of all
-- that were given. `title`: the name, when the constructor has it.
local function check_table(kind, value, where, owner, context, title)
  local places, misspelt, expected = {}, nil, required_of[kind]
  local fields = { places = places }
  for name in next, value do
    if expected[name] == nil then
      misspelt = check_unknown(kind, value, where, owner)
      break
    end
  end
  for _, entry in ipairs(schema[kind]) do
    local name = entry[1]
    local item = name == "name" and title or value[name]
    if item ~= nil then
      local spot = inside(where, name, nil, owner)
      places[name] = spot
      fields[name] = types[entry[2]](item, spot, spot, context or fields)
    elseif entry[3] and not (misspelt and misspelt[name]) then
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
    local item, spot, owner = value[name], inside(where, name, value[name]), { kind = "lever", name = name }
    local named = types.identifier(name, spot, { "the name %s of a lever in %s", name, of = what }, true)
    if type(item) ~= "table" then
      wrong(spot, owner, item, "a table: { env = ..., default = ... }")
    elseif named then
      local lever = check_table("lever", item, spot, owner)
      local text = type(lever.default) == "string"
      lever.name, lever.place = name, spot
      if lever.default ~= nil and not item.kind then
        lever.kind = text and "text" or "switch"
      end
      if lever.default ~= nil and lever.kind and text ~= (lever.kind == "text") then
        local default = inside(spot, "default", nil, owner)
        wrong(default, default, lever.default,
          text and format("true or false, as its kind is '%s'", lever.kind) or "a string, as its kind is 'text'")
      end
      list[#list + 1] = lever
    end
  end
  return list
end

-- { key = "reason" } with keys of a type: a list of { name, reason, place }.
local function reasons(value, where, what, key_type, example)
  if type(value) ~= "table" then
    return wrong(where, what, value, "a table: " .. example)
  end
  local list = {}
  for _, name in ipairs(names_of(value, where, what)) do
    local spot = inside(where, name)
    local ok = key_type(name, spot, { "key %s in %s", name, of = what }, true)
    local why = types.reason(value[name], spot, { "the reason of %s in %s", name, of = what })
    if ok and why then
      list[#list + 1] = { name = name, reason = why, place = spot }
    end
  end
  return list
end

function types.drops(value, where, what)
  return reasons(value, where, what, types.symbol, "{ entry = 'reason' }")
end

function types.absents(value, where, what)
  local list = reasons(value, where, what, types.twin, "{ ['module:entry'] = 'reason' }")
  for _, absent in ipairs(list or {}) do
    absent.module, absent.entry = match(absent.name, "^(.-):(.*)$")
  end
  return list
end

-- What a module or entry is called in messages, and its name when a constructor gave it; nil after a
-- report when another constructor made it.
local function owner_of(kind, value, where, position)
  local mark = marks[value]
  if not mark or mark.kind == "glob" then
    return { kind = kind, name = type(value.name) == "string" and value.name or nil, position = position }
  end
  if mark.kind ~= kind then
    return report(where, "%s stands where a k.%s is expected", mark.name and mark or "a target", kind)
  end
  if value.name ~= nil and value.name ~= mark.name then
    local spot = inside(where, "name", nil, mark)
    wrong(spot, spot, value.name, quoted(mark.name))
  end
  return mark, mark.name
end

local function check_entry(value, where, position, context)
  if type(value) == "string" then
    local name = types.symbol(value, where, { kind = "entry", position = position })
    return name and { name = name, place = where }
  end
  if type(value) ~= "table" or value == host.every then
    return wrong(where, { kind = "entry", position = position }, value, "a name or k.entry 'name' { ... }")
  end
  local owner, title = owner_of("entry", value, where, position)
  if not owner then
    return
  end
  local entry = check_table("entry", value, where, owner, context, title)
  entry.place = where
  if value.twin_of ~= nil and value.bits == nil then
    report(entry.places.twin_of, "%s has 'twin_of' without 'bits', expected bits = 'same' or 'close'", owner)
  elseif value.bits ~= nil and value.twin_of == nil then
    report(entry.places.bits, "%s has 'bits' without 'twin_of', expected both or neither", owner)
  end
  if entry.twin_of then
    entry.twin_module, entry.twin_entry = match(entry.twin_of, "^(.-):(.*)$")
  end
  local least, most = entry.static_smem, entry.limits and entry.limits.static_smem
  if least and most and least > most then
    report(entry.places.static_smem, "%s declares %d bytes of static shared memory and limits them to %d",
      owner, least, most)
  end
  return entry
end

-- Reports the second of two things with one name.
local function once(seen, kind, name, where)
  local first = seen[name]
  if first then
    local file, line = host.place(first)
    report(where, "%s is declared twice, first at %s:%d", { kind = kind, name = name }, file, line)
    return false
  end
  seen[name] = where
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
    if entry and entry.name and once(seen, "entry", entry.name, spot) then
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
      wrong(spots[i], { kind = "module", position = i }, item, "k.module 'name' { ... }")
    else
      local owner, title = owner_of("module", item, spots[i], i)
      local module = owner and check_table("module", item, spots[i], owner, nil, title)
      if module and module.split and module.entries and module.entries.every then
        report(module.places.split, "%s splits its entries, but has entries = k.every: list them", owner)
      end
      if module and module.name and once(seen, "module", module.name, spots[i]) then
        module.place = spots[i]
        list[#list + 1] = module
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
    where = mark
    if mark.kind ~= "target" then
      return report(where, "the description returns a %s, expected the table of k.target { ... }", mark.kind)
    end
  end
  local owner = type(result.name) == "string" and { kind = "target", name = result.name } or "the target"
  local target = check_table("target", result, where, owner)
  target.place = where
  check_compute(target, where)
  if type(result.modules) == "table" and next(result.modules) == nil and not marks[result.modules]
      and result.modules ~= host.every
      and not result.inherits then
    report(inside(where, "modules"), "'modules' of %s is empty, expected at least one module", owner)
  end
  return target
end
