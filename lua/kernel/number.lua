-- Numbers: parsed strictly, written as plain digits. Everything is an integer below 2^53.

local MAX = 9007199254740991

local number = { max = MAX }

-- The integer that a text spells, or nil. One spelling per number: no blanks, no sign but a
-- leading minus, no leading zeros, no fraction, no exponent, no hex.
function number.parse(text)
  if text == '0' then return 0 end
  if #text > 17 or not string.find(text, '^%-?[1-9]%d*$') then return nil end
  local value = tonumber(text)
  if value > MAX or value < -MAX then return nil end
  return value
end

-- A number read back from a record: what is missing or damaged counts as the default, so that
-- a broken field can never make a comparison raise.
function number.stored(text, default)
  if not text then return default end
  local value = tonumber(text)
  if value and value < MAX and value > -MAX then return value end
  return default
end

-- One more than a stored count, which is absent while it is zero. The first is a text, ready for
-- use: turning a number into one is dear.
function number.one_more(text) return text and number.stored(text, 0) + 1 or '1' end

-- The digits of a small number, also while the library loads and has no other way to write it.
function number.constant(value) return value .. '' end

-- The digits of counts: the same few are needed over and over, and making them is dear.
local SMALL, SMALL_MAX = {}, 1000

-- Plain digits, whatever the size: Lua's own conversion turns to exponents at 15 digits.
function number.text(value)
  local text = SMALL[value]
  if text then return text end
  text = string.format('%.0f', value)
  if value >= 0 and value <= SMALL_MAX and value % 1 == 0 then SMALL[value] = text end
  return text
end

return number
