-- Numbers: parsed strictly, written as plain digits. Everything is an integer below 2^53.

local number = { max = 9007199254740991 }

-- The integer that a text spells, or nil. One spelling per number: no blanks, no sign but a
-- leading minus, no leading zeros, no fraction, no exponent, no hex.
function number.parse(text)
  if not string.find(text, '^%-?%d+$') or #text > 17 then return nil end
  if string.find(text, '^%-?0%d') or text == '-0' then return nil end
  local value = tonumber(text)
  if value > number.max or value < -number.max then return nil end
  return value
end

-- A number read back from a record: what is missing or damaged counts as the default, so that
-- a broken field can never make a comparison raise.
function number.stored(text, default)
  local value = text and tonumber(text)
  if value and value == value and value > -number.max and value < number.max then return value end
  return default
end

-- Plain digits, whatever the size: Lua's own conversion turns to exponents at 15 digits.
function number.text(value)
  return string.format('%.0f', value)
end

return number
