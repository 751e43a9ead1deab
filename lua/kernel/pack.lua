-- Packing: several byte strings as one, each behind its length in decimal digits and a colon. What
-- is packed needs no escaping, and no two lists give the same text.

local number = require('kernel.number')

local pack = {}

function pack.join(parts)
  local out = {}
  for i = 1, #parts do out[i] = #parts[i] .. ':' .. parts[i] end
  return table.concat(out)
end

-- The parts of a packed text; nil if it is not one.
function pack.split(text)
  local parts, at, count = {}, 1, 0
  while at <= #text do
    local colon = string.find(text, ':', at, true)
    local size = colon and number.parse(string.sub(text, at, colon - 1))
    if not size or size < 0 or colon + size > #text then return nil end
    count = count + 1
    parts[count] = string.sub(text, colon + 1, colon + size)
    at = colon + size + 1
  end
  return parts
end

return pack
