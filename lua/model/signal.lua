-- Signals: what somebody outside tells a waitpoint. All of one waitpoint are in one hash:
-- `<number>` has a signal's packed parts, `p<number>` its payload if there is one, and
-- `s:<signal id>` and `i:<idempotency key>` the number, by which a repetition is recognised.
-- `d:<approver>` has the number of an approver's decision (model/decision.lua).

local keys = require('kernel.keys')
local limit = require('kernel.limit')
local number = require('kernel.number')
local pack = require('kernel.pack')
local condition = require('model.condition')
local waitpoint = require('model.waitpoint')

local signal = {}

-- The parts of a signal, in order.
signal.PARTS = { 'signal_id', 'signal_name', 'signal_category', 'source_type', 'source_identity',
  'correlation_id', 'payload_encoding', 'accepted_at', 'payload_bytes' }

-- Where they are in a packed signal.
signal.NAME, signal.SOURCE_TYPE, signal.SOURCE_IDENTITY, signal.ACCEPTED_AT = 2, 4, 5, 8

-- What counts as one sender.
local function source(source_type, identity) return pack.join { source_type, identity } end

-- The id of the signal that this one repeats, by its idempotency key or its own id; nil if it is
-- new.
function signal.repeated(one, a)
  if not one.count then return nil end
  local key = keys.signals(one.path)
  local by_key = a.idempotency_key ~= '' and 'i:' .. a.idempotency_key or 's:' .. a.signal_id
  local found = redis.call('HMGET', key, 's:' .. a.signal_id, by_key)
  local place = found[1] or found[2]
  local text = place and redis.call('HGET', key, place)
  return place and (text and (pack.split(text) or {})[1] or a.signal_id)
end

-- Have the execution or the waitpoint taken as much as they can, with so many bytes more?
function signal.is_full(x, one, bytes)
  return number.stored(x.signal_count, 0) >= number.stored(x.signals_max, limit.signals_default)
    or number.stored(one.count, 0) >= limit.waitpoint_signals_max
    or number.stored(one.bytes, 0) + bytes > limit.waitpoint_bytes_max
end

-- Stores a signal; gives what conditions look at.
function signal.store(w, one, a, now)
  local place = number.text(number.stored(one.count, 0) + 1)
  local command = { 'HSET', keys.signals(one.path), place, pack.join { a.signal_id, a.signal_name,
    a.signal_category, a.source_type, a.source_identity, a.correlation_id, a.payload_encoding,
    number.text(now), number.text(#a.payload) }, 's:' .. a.signal_id, place }
  local function also(name, value)
    command[#command + 1], command[#command + 2] = name, value
  end
  if a.idempotency_key ~= '' then also('i:' .. a.idempotency_key, place) end
  if a.payload ~= '' then also('p' .. place, a.payload) end
  w[#w + 1] = command
  waitpoint.set(w, one, { 'count', place, 'last_signal_at', number.text(now),
    'bytes', number.text(number.stored(one.bytes, 0) + #a.payload) })
  return { number = place, name = a.signal_name, source_type = a.source_type,
    source = source(a.source_type, a.source_identity) }
end

-- What conditions look at, of a packed signal; nil if it cannot be read.
local function seen(text, place)
  local parts = text and pack.split(text)
  if not parts or not parts[#signal.PARTS] then return nil end
  local source_type = parts[signal.SOURCE_TYPE]
  return { number = number.text(place), name = parts[signal.NAME], source_type = source_type,
    source = source(source_type, parts[signal.SOURCE_IDENTITY]) }
end

-- Counts every signal that came before the execution was suspended; gives the condition.
function signal.count_all(one, tree)
  local s, matched = condition.open(tree), 0
  local count = number.stored(one.count, 0)
  for first = 1, count, 128 do
    local command = { 'HMGET', keys.signals(one.path) }
    for i = first, math.min(first + 127, count) do command[#command + 1] = number.text(i) end
    local texts = redis.call(unpack(command))
    for i = 1, #texts do
      local told = seen(texts[i], first + i - 1)
      if told and condition.count(s, told) then matched = matched + 1 end
    end
  end
  return s, matched
end

-- The signals that ended a wait, from the given one of them on, each as its parts and its payload.
-- Stops when there are so many bytes. Gives the list, its bytes, and which comes next, if one does.
-- What a damaged store has lost is left out.
function signal.read(one, from, bytes_max)
  local list, bytes, place = {}, 0, 0
  for text in string.gmatch(one.satisfied or '', '%d+') do
    place = place + 1
    if place >= from then
      if bytes >= bytes_max then return list, bytes, place end
      local found = redis.call('HMGET', keys.signals(one.path), text, 'p' .. text)
      if found[1] then
        list[#list + 1], list[#list + 2] = found[1], found[2] or ''
        bytes = bytes + #list[#list] + #list[#list - 1]
      end
    end
  end
  return list, bytes, nil
end

return signal
