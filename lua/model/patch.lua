-- Patches: changes of a JSON document, as RFC 7396 says. An object changes the members it names,
-- and null removes one; anything else takes the place of what was there. Values are never decoded:
-- what a patch does not touch keeps its exact text, and what it brings is kept as it is spelled.

local json = require('kernel.json')

local patch = {}

local function nothing() return { keys = {}, values = {}, labels = {} } end

-- The value that a change makes of another, which may be nil.
local function merged(before, change)
  if type(change) == 'string' then return change end
  local object = type(before) == 'table' and before or nothing()
  for i = 1, #change.keys do
    local name = change.keys[i]
    local value = change.values[name]
    if value == 'null' then
      object.values[name] = nil
    else
      if not object.labels[name] then
        object.keys[#object.keys + 1], object.labels[name] = name, change.labels[name]
      end
      object.values[name] = merged(object.values[name], value)
    end
  end
  return object
end

local function write(out, value)
  if type(value) == 'string' then
    out[#out + 1] = value
    return
  end
  local mark = '{'
  for i = 1, #value.keys do
    local name = value.keys[i]
    if value.values[name] then
      out[#out + 1], out[#out + 2], out[#out + 3] = mark, value.labels[name], ':'
      write(out, value.values[name])
      mark = ','
    end
  end
  out[#out + 1] = mark == '{' and '{}' or '}'
end

-- The document that is left when these texts, from one on, are applied to another, which is empty
-- at the beginning; or nil, what is wrong, and with which of the texts; 0 is the document itself.
function patch.apply(document, texts, from)
  local value, damaged
  if document ~= '' then value, damaged = json.outline(document) end
  if damaged then return nil, damaged, 0 end
  for i = from, #texts do
    local change, wrong = json.outline(texts[i])
    if wrong then return nil, wrong, i end
    value = merged(value, change)
  end
  local out = {}
  write(out, value)
  return table.concat(out)
end

return patch
