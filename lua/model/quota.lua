-- Quotas: how many executions with the same key may begin within a window of time, and how many
-- may run at a time. A policy is a record; each of its keys is a gate (model/gate.lua), known while
-- somebody holds a place, is within the window, or waits.
--
--   holders   execution -> since when: one place for each lease that was let pass and is not over
--   window    execution:epoch -> when it was let pass
--   admitted  execution -> `released:held`: the highest epoch whose lease is over, and the one that
--             holds a place, if one does. Kept until the execution is purged, so that a question
--             that comes late cannot take a place that nobody would give back.

local keys = require('kernel.keys')
local limit = require('kernel.limit')
local number = require('kernel.number')
local reply = require('kernel.reply')
local writes = require('kernel.writes')
local due = require('model.due')
local fact = require('model.fact')
local outbox = require('model.outbox')
local waiting = require('model.waiting')

local quota = {}

-- The word before the ids of policies in facts.
quota.FACT = 'quota:'

-- What a policy says, in the order of the arguments of those who make one.
quota.FIELDS = { 'window_seconds', 'max_requests_per_window', 'max_concurrent', 'jitter_ms' }

local READ = { 'HMGET', '', 'window_seconds', 'max_requests_per_window', 'max_concurrent',
  'jitter_ms', 'created_at', 'changed_at' }

-- A policy by its id; nil if there is none. A limit that it does not have is absent.
function quota.read(p, id)
  READ[2] = p.policy .. id
  local window_seconds, rate_max, concurrency_max, jitter_ms, created_at, changed_at =
    unpack(redis.call(unpack(READ)))
  if not created_at then return nil end
  return { id = id, window_ms = number.stored(window_seconds, 0) * 1000,
    rate_max = number.stored(rate_max, nil), concurrency_max = number.stored(concurrency_max, nil),
    jitter_ms = number.stored(jitter_ms, 0), created_at = created_at,
    changed_at = changed_at or '' }
end

-- The id of the policy whose key a gate is.
local function policy_of(gate) return string.sub(gate, 3, 38) end

-- The value of a tag among pairs; nil if there is none.
local function tag_value(pairs_of_tags, name)
  for i = 1, #pairs_of_tags, 2 do
    if pairs_of_tags[i] == name then return pairs_of_tags[i + 1] end
  end
  return nil
end

-- Fixes under which policy and key a new execution runs, as its compiled policy says; gives a
-- refusal if there is no such policy or key.
function quota.fix(p, compiled, pairs_of_tags)
  local says = compiled.quota
  if not fact.get(p, quota.FACT, says.id) then return reply.refuse('quota_policy_not_found') end
  local key = says.key or ''
  if says.key_tag then key = tag_value(pairs_of_tags, says.key_tag) end
  if not key or #key > limit.quota_key_bytes_max or string.find(key, '[%z\1-\31\127]') then
    return reply.refuse('invalid_policy_json', 'quota.key_tag: the execution must have this tag, '
      .. 'with at most ' .. limit.quota_key_bytes_max .. ' bytes and no control characters')
  end
  compiled.quota_id = says.id
  if key ~= '' then compiled.quota_key = key end
  return nil
end

-- A number from 0 to 1 that depends on these two alone, so that all hosts agree.
local function fraction(text, count)
  local hash = 5381 + count % 65536
  for i = 1, #text do hash = (hash * 33 + string.byte(text, i)) % 4294967296 end
  -- What differs in the last letter alone shall not lie close together.
  for _ = 1, 6 do hash = (hash * 33 + 7) % 4294967296 end
  return hash / 4294967296
end

-- When the window lets somebody pass again, behind this entry of it.
local function opens_at(policy, gate, oldest)
  return oldest + policy.window_ms + math.floor(fraction(gate, oldest) * (policy.jitter_ms + 1))
end

local function text(value) return string.format('%.0f', value) end

-- Entries that left the window are removed, a few at a time.
local function trim(w, key, before)
  local old = redis.call('ZRANGE', key, '-inf', text(before), 'BYSCORE', 'LIMIT', 0,
    limit.window_trim_max)
  if old[1] then w[#w + 1] = { 'ZREM', key, unpack(old) } end
end

-- How many more the window lets pass, and when it lets the next one pass if that is none. A clock
-- that was set back leaves entries of times to come, which count.
local function window_free(w, p, policy, gate, now)
  if not policy.rate_max then return number.max, nil end
  local key, before = p.window .. gate, now - policy.window_ms
  trim(w, key, before)
  local free = policy.rate_max - redis.call('ZCOUNT', key, '(' .. text(before), '+inf')
  if free > 0 then return free, nil end
  -- As many as the limit is are within the window: the oldest of the latest so many opens it.
  local oldest = redis.call('ZRANGE', key, -policy.rate_max, -policy.rate_max, 'WITHSCORES')
  return 0, opens_at(policy, gate, number.stored(oldest[2], now))
end

-- How many the window of a key has let pass, and when it lets the next one pass if nobody may now.
function quota.window(p, policy, gate, now)
  if not policy.rate_max then return 0, nil end
  local free, again_at = window_free({}, p, policy, gate, now)
  return policy.rate_max - free, again_at
end

-- How many places are free.
local function places_free(p, policy, gate)
  if not policy.concurrency_max then return number.max end
  return policy.concurrency_max - redis.call('ZCARD', p.holders .. gate)
end

-- When the last entry leaves the window; nil if it is empty.
local function window_ends_at(p, policy, gate)
  local last = redis.call('ZRANGE', p.window .. gate, -1, -1, 'WITHSCORES')
  return last[2] and number.stored(last[2], 0) + policy.window_ms
end

-- What model/waiting.lua asks: without a policy there is no limit any more.
function waiting.free.q(w, p, gate, now)
  local policy = quota.read(p, policy_of(gate))
  -- A rate that is gone leaves a window that nothing would ever clear.
  if not policy or not policy.rate_max then w[#w + 1] = { 'DEL', p.window .. gate } end
  if not policy then return limit.gate_open_max, nil, nil end
  local free, again_at = window_free(w, p, policy, gate, now)
  return math.max(math.min(free, places_free(p, policy, gate)), 0), again_at,
    policy.rate_max and window_ends_at(p, policy, gate) or nil
end

-- The gates of a policy that somebody waits for are listed, so that a change of it reaches them.
function waiting.on.q(w, p, gate, is_waiting)
  local key = keys.awaited(p.policy .. policy_of(gate))
  w[#w + 1] = is_waiting and { 'ZADD', key, 'NX', w.now, gate } or { 'ZREM', key, gate }
end

-- Which epoch of an execution was released last, and which one holds a place; 0 if none.
local function passed(p, gate, execution_id)
  local found = redis.call('HGET', p.admitted .. gate, execution_id)
  local released, held = string.match(found or '', '^(%d+):(%d*)$')
  return tonumber(released) or 0, tonumber(held) or 0
end

local function note(w, p, gate, execution_id, released, held)
  w[#w + 1] = { 'HSET', p.admitted .. gate, execution_id,
    number.text(released) .. ':' .. (held > 0 and number.text(held) or '') }
end

-- Lets a lease pass a gate: it holds a place and is within the window from now on.
local function admit(w, p, policy, gate, a, released, now)
  note(w, p, gate, a.execution_id, released, a.lease_epoch)
  w[#w + 1] = { 'ZADD', p.holders .. gate, now, a.execution_id }
  if policy.rate_max then
    w[#w + 1] = { 'ZADD', p.window .. gate, now, a.execution_id .. ':'
      .. number.text(a.lease_epoch) }
    w[#w + 1] = { 'ZADD', p.due, 'NX', now + policy.window_ms, waiting.PREFIX .. gate }
  end
  waiting.passed(w, p, gate, now)
end

-- Decides whether a lease may pass a gate: gives the outcome, and if the window refuses it when to
-- try again. A later lease of an execution takes over the place of an earlier one, whose release is
-- on its way.
function quota.ask(w, p, policy, gate, a, now)
  local released, held = passed(p, gate, a.execution_id)
  if held == a.lease_epoch then return 'ALREADY_ADMITTED' end
  if a.lease_epoch <= math.max(released, held) then return 'stale_lease' end
  if a.lease_expires_at <= now then return 'lease_expired' end
  local free, again_at = window_free(w, p, policy, gate, now)
  if free <= 0 then return 'RATE_EXCEEDED', again_at end
  if held == 0 and places_free(p, policy, gate) <= 0 then return 'CONCURRENCY_EXCEEDED' end
  admit(w, p, policy, gate, a, math.max(released, held), now)
  return 'ADMITTED'
end

-- A lease is over: its place is free. One that never ran is not within the window either. Gives
-- whether it was not known before.
function quota.release(w, p, gate, execution_id, epoch, used)
  local released, held = passed(p, gate, execution_id)
  if epoch <= released then return false end
  local stays = held > epoch and held or 0
  if held > 0 and stays == 0 then w[#w + 1] = { 'ZREM', p.holders .. gate, execution_id } end
  if not used then
    w[#w + 1] = { 'ZREM', p.window .. gate, execution_id .. ':' .. number.text(epoch) }
  end
  -- Of a policy that is gone, too: one may follow by its id, and a question still be on its way.
  note(w, p, gate, execution_id, epoch, stays)
  return true
end

-- The execution is gone, and with it all of its leases.
function quota.forget(w, p, gate, execution_id)
  w[#w + 1] = { 'HDEL', p.admitted .. gate, execution_id }
  w[#w + 1] = { 'ZREM', p.holders .. gate, execution_id }
end

-- What stands in `due` for a policy that changed: its id, and up to which score the gates that
-- somebody waits for are to be looked at. Who was looked at has a greater one.
local CHANGED = 'u:'

-- All gates of a policy that somebody waits for are looked at again, a few at a time.
function quota.look_at_all(w, p, policy_id, now)
  local last = redis.call('ZRANGE', keys.awaited(p.policy .. policy_id), -1, -1, 'WITHSCORES')
  if not last[2] then return end
  w[#w + 1] = { 'ZADD', p.due, now, CHANGED .. policy_id .. ':' .. text(last[2]) }
  writes.due(w, now)
end

due.on[waiting.PREFIX] = function(w, p, member, now)
  waiting.attend(w, p, string.sub(member, 3), now, outbox.owe)
  return 'gates'
end

due.on[CHANGED] = function(w, p, member, now)
  local id, last = string.match(member, '^u:(.*):(%-?%d+)$')
  local key = keys.awaited(p.policy .. id)
  local list = redis.call('ZRANGE', key, '-inf', last, 'BYSCORE', 'LIMIT', 0,
    limit.gates_looked_at)
  for i = 1, #list do
    w[#w + 1] = { 'ZADD', key, 'XX', text(math.max(now, last + 1)), list[i] }
    waiting.attend(w, p, list[i], now, outbox.owe)
  end
  if not list[1] then w[#w + 1] = { 'ZREM', p.due, member } end
  return 'gates'
end

return quota
