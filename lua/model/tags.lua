-- Tags: a flat object of short texts that a user puts on an execution, to find it again.

local json = require('kernel.json')
local limit = require('kernel.limit')
local number = require('kernel.number')

local tags = {}

-- A tag is named `area.name`: a lower-case word, a dot, and something behind it.
function tags.wrong_name(name)
  if #name > limit.tag_key_bytes_max then
    return 'must be at most ' .. limit.tag_key_bytes_max .. ' bytes'
  end
  if not string.find(name, '^%l[%l%d_]*%.[^.]') or string.find(name, '[%z\1-\31\127]') then
    return 'must be a lower-case word, a dot and a name, as in team.name'
  end
  return nil
end

local function render(value)
  if type(value) == 'string' then return value end
  if type(value) == 'boolean' then return value and 'true' or 'false' end
  if type(value) == 'number' and value % 1 == 0 and math.abs(value) <= number.max then
    return number.text(value)
  end
  return nil
end

local function wrong_value(text)
  if not text then return 'must be a text, a whole number or a boolean' end
  if #text > limit.tag_value_bytes_max then
    return 'must be at most ' .. limit.tag_value_bytes_max .. ' bytes'
  end
  return nil
end

-- Adds one pair to a list; gives a code and a detail if it breaks a rule.
function tags.add(list, name, value)
  if tags.wrong_name(name) then return 'invalid_tag_key', string.sub(name, 1, 128) end
  local text = render(value)
  local wrong = wrong_value(text)
  if wrong then return 'invalid_input', 'tags.' .. name .. ' ' .. wrong end
  list[#list + 1], list[#list + 2] = name, text
  return nil
end

local NONE = {}

-- Reads `{"name": value, …}`; gives the pairs as a flat list, or nil, a code and a detail.
function tags.read(text)
  if text == '' then return NONE end
  local object, malformed = json.read(text)
  if malformed then return nil, 'invalid_input', 'tags_json ' .. malformed end
  if type(object) ~= 'table' or object.kind ~= 'object' then
    return nil, 'invalid_input', 'tags_json must be an object'
  end
  if #object.keys > limit.tags_max then
    return nil, 'invalid_input', 'tags_json must have at most ' .. limit.tags_max .. ' tags'
  end
  local list = {}
  for i = 1, #object.keys do
    local code, detail = tags.add(list, object.keys[i], object.values[object.keys[i]])
    if code then return nil, code, detail end
  end
  return list
end

return tags
