-- Amounts: how much of what, in dimensions that people name. They come as names and whole numbers
-- in turn, and are kept in the order of their names.

local limit = require('kernel.limit')
local number = require('kernel.number')

local amount = {}

local NAME = '^[%w_][%w_.-]*$'
local NAME_RULE = 'a dimension must be 1 to ' .. limit.dimension_bytes_max
  .. ' letters, digits and _ . -, and begin with none of the last two'

function amount.is_name(text)
  return #text <= limit.dimension_bytes_max and string.find(text, NAME) ~= nil
end

-- What is wrong with a dimension that is named once more; nil if nothing is.
function amount.wrong_name(name, seen)
  if not amount.is_name(name) then return NAME_RULE end
  if seen[name] then return 'dimension ' .. name .. ' is given twice' end
  seen[name] = true
  return nil
end

function amount.read(text, least)
  local value = number.parse(text)
  return value and value >= least and value <= limit.usage_max and value or nil
end

function amount.rule(name, least)
  return string.format('%s must be a whole number from %d to %.0f', name, least, limit.usage_max)
end

local function by_name(one, other) return one.name < other.name end

-- Names and numbers in turn, as a list of name and value; nil and what is wrong.
function amount.list(words)
  if #words % 2 ~= 0 then return nil, 'dimensions must come with a number each' end
  local list, seen = {}, {}
  for i = 1, #words, 2 do
    local name, value = words[i], amount.read(words[i + 1], 0)
    local wrong = amount.wrong_name(name, seen)
    if wrong or not value then return nil, wrong or amount.rule(name, 0) end
    list[#list + 1] = { name = name, value = value }
  end
  if #list > limit.dimensions_max then
    return nil, 'dimensions must be at most ' .. limit.dimensions_max
  end
  table.sort(list, by_name)
  return list
end

-- The same as one text, `name=value` joined by commas, and back.
function amount.text(list)
  local parts = {}
  for i = 1, #list do parts[i] = list[i].name .. '=' .. number.text(list[i].value) end
  return table.concat(parts, ',')
end

function amount.of_text(text)
  local list = {}
  for name, value in string.gmatch(text, '([^=,]+)=(%d+)') do
    list[#list + 1] = { name = name, value = tonumber(value) }
  end
  return list
end

return amount
