-- Arguments: each kind is a constructor that gives a name, a parser, the texts whose values are
-- known without it, and up to which length any text is its own value. A parser gets the text, the
-- partition's keys and the time, and answers the parsed value, or nil and what is wrong. The value
-- false means: not given.

local number = require('kernel.number')
local limit = require('kernel.limit')

local arg = {}

local function repeated(text, count)
  local out = ''
  for _ = 1, count do out = out .. text end
  return out
end

local UUID = '^' .. repeated('%x', 8) .. '%-' .. repeated('%x', 4) .. '%-' .. repeated('%x', 4)
  .. '%-' .. repeated('%x', 4) .. '%-' .. repeated('%x', 12) .. '$'

local function is_uuid(text) return string.find(text, UUID) and text == string.lower(text) end

arg.is_uuid = is_uuid

-- Printable characters but { | } : and, at the beginning, a blank.
local LABEL = '^[!-9;-z|~][ -9;-z|~]*$'

local NONE = {}
local EMPTY = { [''] = '' }
local KNOWN_MAX = 256

-- Empties a table but for what is known of the empty text.
local function forget(known)
  for text in pairs(known) do if text ~= '' then known[text] = nil end end
  return 0
end

-- An argument that has the same few values again and again: what was parsed once need not be again.
local function remembering(name, parse)
  local count, spec = 0, { name = name, known = {}, cap = -1 }
  function spec.parse(text, p, now)
    local value, wrong = parse(text, p, now)
    if wrong then return nil, wrong end
    if count == KNOWN_MAX then count = forget(spec.known) end
    spec.known[text], count = value, count + 1
    return value
  end
  return spec
end

-- An argument with a parser of its own.
function arg.custom(name, parse) return { name = name, known = NONE, cap = -1, parse = parse } end

-- The id of an execution of this partition; parsed into its uuid.
function arg.execution(name)
  return arg.custom(name, function(text, p)
    local tag = p.tag
    local size = #tag
    if #text ~= size + 36 or string.sub(text, 1, size) ~= tag then
      return nil, 'must be ' .. tag .. ' and a uuid'
    end
    return string.sub(text, size + 1)
  end)
end

-- As above, and the uuid's grammar is checked: for ids that are about to be stored.
function arg.new_execution(name)
  local base = arg.execution(name)
  return arg.custom(name, function(text, p)
    local uuid, wrong = base.parse(text, p)
    if uuid and not is_uuid(uuid) then return nil, 'must end in a lower-case uuid' end
    return uuid, wrong
  end)
end

function arg.uuid(name)
  return arg.custom(name, function(text)
    if not is_uuid(text) then return nil, 'must be a lower-case hyphenated uuid' end
    return text
  end)
end

-- A name that becomes part of keys: printable, without the characters that could forge one.
function arg.label(name, bytes_max)
  local rule = 'must be 1 to ' .. bytes_max
    .. ' printable ASCII characters without { } : and without blanks at the ends'
  return remembering(name, function(text)
    if #text > bytes_max or not string.find(text, LABEL) or string.byte(text, -1) == 32 then
      return nil, rule
    end
    return text
  end)
end

-- A text that is stored and never part of a key.
function arg.printable(name, bytes_max)
  local rule = 'must be 1 to ' .. bytes_max
    .. ' printable ASCII characters without blanks at the ends'
  return arg.custom(name, function(text)
    if #text > bytes_max or not string.find(text, '^[!-~][ -~]*$')
      or string.byte(text, -1) == 32 then
      return nil, rule
    end
    return text
  end)
end

-- Several such names, joined by colons, which no name contains; parsed into a set.
function arg.labels(name, bytes_max, count_max)
  local one = arg.label(name, bytes_max)
  local rule = 'must be at most ' .. count_max .. ' names'
  return remembering(name, function(text)
    if #text > count_max * (bytes_max + 1) then return nil, rule end
    local set, count = {}, 0
    for label in string.gmatch(text .. ':', '([^:]*):') do
      local value, wrong = one.parse(label)
      if wrong then return nil, wrong end
      set[value], count = true, count + 1
    end
    if count > count_max then return nil, rule end
    return set
  end)
end

-- Any bytes up to a number.
local function capped(name, bytes_max, too_large)
  local function parse(text)
    if #text > bytes_max then return nil, 'must be at most ' .. bytes_max .. ' bytes' end
    return text
  end
  return { name = name, known = EMPTY, cap = bytes_max, parse = parse, too_large = too_large }
end

function arg.text(name, bytes_max) return capped(name, bytes_max, false) end

-- What the lead byte of a character says: the least and the greatest byte that follows it, and how
-- many others do. The limits leave out what is too long, surrogates, and what is beyond the last.
local function follows(lead)
  if lead < 0xC2 or lead > 0xF4 then return nil end
  if lead < 0xE0 then return 0x80, 0xBF, 0 end
  if lead < 0xF0 then return lead == 0xE0 and 0xA0 or 0x80, lead == 0xED and 0x9F or 0xBF, 1 end
  return lead == 0xF0 and 0x90 or 0x80, lead == 0xF4 and 0x8F or 0xBF, 2
end

-- Is a text UTF-8? Whoever reads it later takes it for that.
function arg.is_utf8(text)
  local at = string.find(text, '[\128-\255]')
  while at do
    local low, high, more = follows(string.byte(text, at))
    local second = string.byte(text, at + 1)
    if not low or not second or second < low or second > high then return false end
    local stop = at + 1 + more
    if #text < stop or string.find(string.sub(text, at + 2, stop), '[^\128-\191]') then
      return false
    end
    at = string.find(text, '[\128-\255]', stop + 1)
  end
  return true
end

-- A text from outside that others read.
function arg.utf8(name, bytes_max)
  local inner = arg.text(name, bytes_max)
  return { name = name, known = EMPTY, cap = -1, parse = function(text)
    if not arg.is_utf8(text) then return nil, 'must be UTF-8' end
    return inner.parse(text)
  end }
end

function arg.bytes(name, bytes_max) return capped(name, bytes_max, true) end

-- An id that is only compared with a stored one: what is malformed does not match.
function arg.given(name) return capped(name, 64, false) end

function arg.int(name, low, high)
  return remembering(name, function(text)
    local value = number.parse(text)
    if not value or value < low or value > high then
      return nil, string.format('must be a whole number from %.0f to %.0f', low, high)
    end
    return value
  end)
end

-- A point in time: milliseconds since 1970, or `+` and milliseconds from now by the store's clock.
function arg.moment(name)
  local rule = 'must be milliseconds since 1970, or + and milliseconds from now'
  return arg.custom(name, function(text, _, now)
    local relative = string.sub(text, 1, 1) == '+'
    local value = number.parse(relative and string.sub(text, 2) or text)
    if not value or value < 0 then return nil, rule end
    if relative then value = now + value end
    if value > limit.timestamp_ms_max then return nil, 'must lie before the year 10000' end
    return value
  end)
end

function arg.choice(name, words)
  local rule, known = 'must be one of', {}
  for i = 1, #words do
    rule = rule .. ' ' .. words[i]
    known[words[i]] = words[i]
  end
  return { name = name, known = known, cap = -1, parse = function() return nil, rule end }
end

-- Empty means not given; otherwise as the inner kind.
function arg.optional(inner, default)
  local known = inner.known
  if known == NONE or known == EMPTY then
    known = {}
    inner.known = known
  end
  known[''] = default or false
  return inner
end

-- All remaining arguments, as a list; at least `low`, at most `high` of them.
function arg.rest(inner, low, high)
  return { name = inner.name, rest = true, parse = inner.parse, low = low, high = high,
    too_large = inner.too_large }
end

return arg
