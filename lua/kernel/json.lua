-- JSON, read strictly: the store's own decoder takes hex, nan and exponents for numbers and cannot
-- tell an empty list from an empty object, both of which matter in a policy.
--
-- Objects become { kind = 'object', keys = {…}, values = {…} }, lists { kind = 'list', … };
-- strings, numbers and booleans become themselves; null becomes json.null.

local limit = require('kernel.limit')

local json = { null = { kind = 'null' } }

local ESCAPES = {
  ['"'] = '"', ['\\'] = '\\', ['/'] = '/',
  b = '\b', f = '\f', n = '\n', r = '\r', t = '\t',
}

local read_value

local function skip(s) s.at = string.find(s.text, '[^ \t\r\n]', s.at) or #s.text + 1 end

local function fail(s, what)
  s.wrong = s.wrong or string.format('%s at byte %d', what, s.at)
  return nil
end

-- UTF-8 of a code point below 0x10000; surrogate pairs are joined by the caller.
local function utf8(code)
  local char, floor = string.char, math.floor
  if code < 128 then return char(code) end
  if code < 2048 then return char(192 + floor(code / 64), 128 + code % 64) end
  if code < 65536 then
    return char(224 + floor(code / 4096), 128 + floor(code / 64) % 64, 128 + code % 64)
  end
  return char(240 + floor(code / 262144), 128 + floor(code / 4096) % 64,
    128 + floor(code / 64) % 64, 128 + code % 64)
end

local function read_hex4(s)
  local digits = string.match(s.text, '^%x%x%x%x', s.at)
  if not digits then return fail(s, 'a \\u needs four hex digits') end
  s.at = s.at + 4
  return tonumber(digits, 16)
end

local function read_unicode(s)
  local code = read_hex4(s)
  if not code or code < 0xD800 or code > 0xDFFF then return code and utf8(code) end
  if code > 0xDBFF or string.sub(s.text, s.at, s.at + 1) ~= '\\u' then
    return fail(s, 'half of a surrogate pair')
  end
  s.at = s.at + 2
  local low = read_hex4(s)
  if not low then return nil end
  if low < 0xDC00 or low > 0xDFFF then return fail(s, 'half of a surrogate pair') end
  return utf8(0x10000 + (code - 0xD800) * 1024 + low - 0xDC00)
end

local function read_escape(s)
  local letter = string.sub(s.text, s.at, s.at)
  s.at = s.at + 1
  if letter == 'u' then return read_unicode(s) end
  return ESCAPES[letter] or fail(s, 'unknown escape')
end

local function read_string(s)
  local parts = {}
  s.at = s.at + 1
  while true do
    local stop = string.find(s.text, '["\\%c]', s.at)
    if not stop then return fail(s, 'unfinished string') end
    parts[#parts + 1] = string.sub(s.text, s.at, stop - 1)
    s.at = stop + 1
    local mark = string.sub(s.text, stop, stop)
    if mark == '"' then return table.concat(parts) end
    if mark ~= '\\' and mark ~= '\127' then return fail(s, 'control byte in a string') end
    local piece = mark == '\127' and mark or read_escape(s)
    if not piece then return nil end
    parts[#parts + 1] = piece
  end
end

-- Any number that JSON has, however it is spelled.
local function read_any_number(s)
  local digits = string.match(s.text, '^%-?%d+', s.at)
  if not digits or string.find(digits, '^%-?0%d') then return fail(s, 'not a number') end
  s.at = s.at + #digits
  s.at = s.at + #(string.match(s.text, '^%.%d+', s.at) or '')
  s.at = s.at + #(string.match(s.text, '^[eE][+-]?%d+', s.at) or '')
  if string.find(s.text, '^[%w.+-]', s.at) then return fail(s, 'not a number') end
  return true
end

-- Plain decimals only: an exponent would let one number be spelled in many ways.
local function read_number(s)
  if s.any_number then return read_any_number(s) end
  local text = string.match(s.text, '^%-?%d+%.?%d*', s.at)
  if not text or #text > 20 or string.find(text, '^%-?0%d') or string.find(text, '%.$') then
    return fail(s, 'not a plain decimal number')
  end
  s.at = s.at + #text
  if string.find(s.text, '^[%w.+-]', s.at) then return fail(s, 'not a plain decimal number') end
  return tonumber(text)
end

local function read_word(s)
  local word = string.match(s.text, '^%l+', s.at) or ''
  s.at = s.at + #word
  if word == 'true' then return true end
  if word == 'false' then return false end
  if word == 'null' then return json.null end
  return fail(s, 'unexpected character')
end

-- Reads `item, item, …` up to the closing mark, calling `one` for each item.
local function read_items(s, close, one)
  s.at = s.at + 1
  skip(s)
  if string.sub(s.text, s.at, s.at) == close then s.at = s.at + 1 return true end
  while true do
    if not one() then return nil end
    skip(s)
    local mark = string.sub(s.text, s.at, s.at)
    s.at = s.at + 1
    if mark == close then return true end
    if mark ~= ',' then return fail(s, 'expected , or ' .. close) end
    skip(s)
  end
end

local function read_list(s, depth)
  local list = { kind = 'list' }
  local function one()
    local value = read_value(s, depth)
    if s.wrong then return nil end
    list[#list + 1] = value
    return true
  end
  return read_items(s, ']', one) and list
end

-- Reads the values of its members by `read_member`; `labels` gets their names as they are spelled.
local function read_object(s, depth, read_member, labels)
  local object = { kind = 'object', keys = {}, values = {}, labels = labels }
  local function one()
    if string.sub(s.text, s.at, s.at) ~= '"' then return fail(s, 'expected a name in quotes') end
    local from = s.at
    local name = read_string(s)
    if not name then return nil end
    if object.values[name] ~= nil then return fail(s, 'the same name twice') end
    if labels then labels[name] = string.sub(s.text, from, s.at - 1) end
    skip(s)
    if string.sub(s.text, s.at, s.at) ~= ':' then return fail(s, 'expected :') end
    s.at = s.at + 1
    local value = read_member(s, depth)
    if s.wrong then return nil end
    object.keys[#object.keys + 1] = name
    object.values[name] = value
    return true
  end
  return read_items(s, '}', one) and object
end

read_value = function(s, depth)
  if depth > s.depth_max then return fail(s, 'nested too deep') end
  skip(s)
  local mark = string.sub(s.text, s.at, s.at)
  if mark == '{' then return read_object(s, depth + 1, read_value) end
  if mark == '[' then return read_list(s, depth + 1) end
  if mark == '"' then return read_string(s) end
  if mark == '-' or string.find(mark, '^%d') then return read_number(s) end
  return read_word(s)
end

-- An object whose members are read the same way, or the exact text of anything else.
local function outline_value(s, depth)
  if depth > s.depth_max then return fail(s, 'nested too deep') end
  skip(s)
  local from = s.at
  if string.sub(s.text, from, from) == '{' then
    return read_object(s, depth + 1, outline_value, {})
  end
  read_value(s, depth)
  return string.sub(s.text, from, s.at - 1)
end

-- Nothing but blanks may follow a value.
local function whole(s, value)
  if not s.wrong then
    skip(s)
    if s.at <= #s.text then fail(s, 'unexpected text behind the value') end
  end
  if s.wrong then return nil, s.wrong end
  return value
end

-- A text as JSON has it.
function json.quoted(text)
  local out = string.gsub(text, '[%z\1-\31"\\\127]', function(byte)
    return string.format('\\u%04x', string.byte(byte))
  end)
  return '"' .. out .. '"'
end

-- The value that a text spells, or nil and what is wrong with it.
function json.read(text)
  local s = { text = text, at = 1, depth_max = limit.json_depth_max }
  return whole(s, read_value(s, 0))
end

-- Every form of a character beyond ASCII.
local CHARACTERS = { '[\194-\223][\128-\191]', '\224[\160-\191][\128-\191]',
  '\237[\128-\159][\128-\191]', '[\225-\236\238\239][\128-\191][\128-\191]',
  '\240[\144-\191][\128-\191][\128-\191]', '\244[\128-\143][\128-\191][\128-\191]',
  '[\241-\243][\128-\191][\128-\191][\128-\191]' }

local function is_utf8(text)
  if not string.find(text, '[\128-\255]') then return true end
  for i = 1, #CHARACTERS do text = string.gsub(text, CHARACTERS[i], 'x') end
  return not string.find(text, '[\128-\255]')
end

-- The outline of any JSON text, or nil and what is wrong with it: objects become { keys = {…},
-- values = {…}, labels = {…} }, where the labels are the names as they are spelled; every other
-- value becomes its exact text.
function json.outline(text)
  if not is_utf8(text) then return nil, 'not UTF-8' end
  local s = { text = text, at = 1, depth_max = limit.summary_depth_max, any_number = true }
  return whole(s, outline_value(s, 0))
end

return json
