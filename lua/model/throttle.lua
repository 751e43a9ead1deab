-- Throttles: what holds submissions of one kind together, or apart, by a key that the submitter
-- names. A debounced execution waits for a pause in the submissions under its key, each of which
-- replaces its payload. Of a singleton there is one at a time, from creation to outcome: what comes
-- meanwhile is not made, or waits for its turn. The partition, which the key decides, remembers who
-- has it; that is forgotten when who has it is over.

local arg = require('kernel.arg')
local limit = require('kernel.limit')
local number = require('kernel.number')
local blob = require('model.blob')
local commit = require('model.commit')
local parking = require('model.parking')
local record = require('model.record')
local runnable = require('model.runnable')
local state = require('model.state')

local throttle = {}

-- The letter that stands before the key in the record, and before its name in the partition.
local DEBOUNCE, SINGLETON = 'd', 's'

local one_key = arg.label('key', limit.throttle_key_bytes_max)
local one_time = arg.int('time', 1, limit.delay_ms_max)

local RULE = 'must be debounce:delay_ms:max_wait_ms:key, skip:key or queue:key'

local function read_key(word, key, waits)
  local value, wrong = one_key.parse(key)
  if not value then return nil, 'key ' .. wrong end
  return { word = word, key = value, waits = waits }
end

local function read_debounce(rest)
  local delay, wait, key = string.match(rest, '^([^:]*):([^:]*):(.*)$')
  if not key then return nil, RULE end
  local delay_ms, wait_ms = one_time.parse(delay), one_time.parse(wait)
  if not delay_ms or not wait_ms or delay_ms > wait_ms then
    return nil, RULE .. ', and delay_ms at most max_wait_ms'
  end
  local read, wrong = read_key(DEBOUNCE, key)
  if read then read.delay_ms, read.wait_ms = delay_ms, wait_ms end
  return read, wrong
end

-- The argument that says how a submission is throttled.
function throttle.arg()
  return arg.optional(arg.custom('throttle', function(text)
    local word, rest = string.match(text, '^(%l+):(.*)$')
    if word == 'debounce' then return read_debounce(rest) end
    if word == 'skip' or word == 'queue' then return read_key(SINGLETON, rest, word == 'queue') end
    return nil, RULE
  end))
end

-- Why a submission cannot be throttled; nil if it can. Each key decides the partition, and the time
-- of what is debounced is its own.
function throttle.wrong(a)
  if a.idempotency_key then return 'throttle must not be given together with idempotency_key' end
  if a.throttle.word == DEBOUNCE and a.delay_until then
    return 'a debounced submission has no delay_until of its own'
  end
  return nil
end

local function name_of(word, namespace, kind, key)
  return word .. ':' .. namespace .. ':' .. kind .. ':' .. key
end

-- The name under which the partition remembers who has the key of an execution.
local function name_by(x)
  local text = blob.get(x, 'throttle')
  return name_of(string.sub(text, 1, 1), x.namespace or '', x.kind or '', string.sub(text, 3))
end

-- Those who wait for a key.
local function turns(p, name) return p.turns .. string.sub(name, 3) end

-- Who has a key, as this call leaves it; false if nobody has.
local function holder(p, name)
  local known = p.throttled
  if not known then
    known = {}
    p.throttled = known
  end
  if known[name] == nil then known[name] = redis.call('HGET', p.throttles, name) end
  return known[name]
end

-- Gives a key to an execution, or to nobody.
local function give(w, name, uuid)
  local p = w.p
  w[#w + 1] = uuid and { 'HSET', p.throttles, name, uuid } or { 'HDEL', p.throttles, name }
  holder(p, name)
  p.throttled[name] = uuid or false
end

-- The execution that has a key and is not over; nil if there is none.
local function live_holder(p, name)
  local uuid = holder(p, name)
  local x = uuid and record.read(p, uuid)
  return x and state.LIVE[x.state] and x or nil
end

-- Takes the key of a singleton, or waits for it.
local function enter(w, x, name, now)
  if not live_holder(w.p, name) then return give(w, name, x.uuid) end
  record.set(x, 'awaits_turn', '1')
  parking.forbid(x, parking.BY_POLICY, '', '', now)
  w[#w + 1] = { 'ZADD', turns(w.p, name), now, x.uuid }
end

-- Makes a new execution one that is throttled, before it is placed.
function throttle.join(w, x, a, now)
  local one = a.throttle
  local name = name_of(one.word, a.namespace, a.kind, one.key)
  blob.put(x, w, 'throttle', one.word .. ':' .. one.key)
  if one.word == SINGLETON then return enter(w, x, name, now) end
  runnable.delay(x, now + one.delay_ms, 'delay')
  record.set(x, 'debounce_until', now + one.wait_ms)
  give(w, name, x.uuid)
end

-- Is a debounced execution still waiting for a pause in its submissions?
local function is_gathering(x, now)
  return (x.state == 'delayed' or x.state == 'parked') and not x.attempt_count
    and number.stored(x.delay_until, 0) > now
end

-- Replaces the payload, and waits anew, but not longer than was said at first.
local function replace(w, x, a, now)
  blob.drop(x, w, 'payload')
  blob.put(x, w, 'payload', a.payload)
  runnable.delay(x, math.min(now + a.throttle.delay_ms, number.stored(x.debounce_until, 0)),
    'delay')
  record.set(x, 'mutation_at', now)
  commit(w, x, 'debounced')
end

-- The execution that stands for a submission, and what became of it; nil if a new one is to be
-- made.
function throttle.instead(w, p, a, now)
  local one = a.throttle
  local x = live_holder(p, name_of(one.word, a.namespace, a.kind, one.key))
  if not x or one.waits then return nil end
  if one.word == SINGLETON then return x, 'DUPLICATE' end
  if not is_gathering(x, now) then return nil end
  replace(w, x, a, now)
  return x, 'DEBOUNCED'
end

-- How many of those who wait are looked at for one that is there.
local LOOKED_AT = 16

-- The next one that waits for a key; nil if nobody does. What this call took before is still
-- listed.
local function next_in_line(p, name)
  local taken = p.turns_taken or {}
  p.turns_taken = taken
  local from = taken[name] or 0
  local list = redis.call('ZRANGE', turns(p, name), from, from + LOOKED_AT - 1)
  for i = 1, #list do
    taken[name] = from + i
    local x = record.read(p, list[i])
    if x and x.awaits_turn and state.LIVE[x.state] then return x end
  end
  return nil
end

-- It is its turn: what else holds it may go on to.
local function take_turn(w, x, name, now)
  give(w, name, x.uuid)
  w[#w + 1] = { 'ZREM', turns(w.p, name), x.uuid }
  record.drop(x, { 'awaits_turn' })
  if x.park_reason == parking.BY_POLICY then
    parking.allow(x, now)
    runnable.place(x, now)
    record.set(x, 'transition_at', now)
  end
  commit(w, x, 'unparked', parking.BY_POLICY)
end

-- An execution is over: the next one has its key, or nobody.
function throttle.ended(w, x, now)
  local p, name = w.p, name_by(x)
  if x.awaits_turn then
    record.drop(x, { 'awaits_turn' })
    w[#w + 1] = { 'ZREM', turns(p, name), x.uuid }
    return
  end
  if holder(p, name) ~= x.uuid then return end
  local follower = string.sub(name, 1, 1) == SINGLETON and next_in_line(p, name)
  if follower then take_turn(w, follower, name, now) else give(w, name, nil) end
end

-- An execution that was over is to run again, before it is placed.
function throttle.reopened(w, x, now)
  local name = name_by(x)
  if string.sub(name, 1, 1) == SINGLETON then enter(w, x, name, now) end
end

-- Who has the singleton key that an execution waits for; nil if it waits for none.
function throttle.ahead(p, x)
  return x.awaits_turn and redis.call('HGET', p.throttles, name_by(x)) or nil
end

return throttle
