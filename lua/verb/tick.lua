-- Tick: executes what is due in this partition, in bounded batches, and says when it is needed
-- next.

local arg = require('kernel.arg')
local define = require('kernel.define').define
local limit = require('kernel.limit')
local record = require('kernel.record')
local reply = require('kernel.reply')
local writes = require('kernel.writes')
local index = require('model.index')
local purge = require('model.purge')
local state = require('model.state')
local timer = require('model.timer')

local function due_members(key, now, most)
  return redis.call('ZRANGE', key, '-inf', string.format('%.0f', now), 'BYSCORE',
    'LIMIT', 0, most)
end

-- An idempotency key whose window is over.
local function forget(w, p, member)
  w[#w + 1] = { 'HDEL', p.idempotency, string.sub(member, 3) }
  w[#w + 1] = { 'ZREM', p.due, member }
  return 'forgotten'
end

-- A worker that was not heard of in time.
local function drop_worker(w, p, member)
  w[#w + 1] = { 'HDEL', p.workers, string.sub(member, 3) }
  w[#w + 1] = { 'ZREM', p.due, member }
  return 'forgotten'
end

-- An entry whose execution is not due (any more): it is put where its record says.
local function correct(w, p, uuid, x)
  local at = x and not state.ENDED[x.state] and index.due_at(x)
  w[#w + 1] = at and { 'ZADD', p.due, at, uuid } or { 'ZREM', p.due, uuid }
  return 'corrected'
end

local function fire(w, p, member, now)
  local prefix = string.sub(member, 1, 2)
  if prefix == 'i:' then return forget(w, p, member) end
  if prefix == 'w:' then return drop_worker(w, p, member) end
  local x = record.read(p, member)
  return x and timer.fire(w, x, now) or correct(w, p, member, x)
end

local function fire_due(w, p, now, counts, most)
  local members = due_members(p.due, now, most)
  for i = 1, #members do
    local what = fire(w, p, members[i], now)
    counts[what] = (counts[what] or 0) + 1
  end
  return #members
end

local function purge_ended(w, p, now, counts, most)
  for i = 1, #state.OUTCOMES do
    local outcome = state.OUTCOMES[i]
    local members = due_members(p.ended[outcome], now, most)
    for j = 1, #members do purge.execution(w, p, members[j], outcome) end
    counts.purged = (counts.purged or 0) + #members
    most = most - #members
    if most <= 0 then return end
  end
end

local function first_score(key)
  local head = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
  return head[2] and tonumber(head[2])
end

-- The next time anything is due here; nil if nothing ever is.
local function next_due(p)
  local at = first_score(p.due)
  for i = 1, #state.OUTCOMES do
    local other = first_score(p.ended[state.OUTCOMES[i]])
    if other and (not at or other < at) then at = other end
  end
  return at
end

local NONE = {}

local function answer(now, next_due_at, late_ms, counts)
  return reply.ok(now, next_due_at or '', late_ms, counts.promoted or 0, counts.lapsed or 0,
    counts.timed_out or 0, counts.expired or 0, counts.ungranted or 0, counts.purged or 0,
    counts.forgotten or 0, counts.corrected or 0)
end

define {
  name = 'ff_tick',
  doc = 'Executes what is due in a partition and tells when it is next needed.',
  flags = { 'allow-oom' },
  args = { arg.int('items_max', 1, limit.tick_batch_max) },
  gives = {
    OK = { 'now', 'next_due_at', 'late_ms', 'promoted', 'lapsed', 'timed_out', 'expired',
      'ungranted', 'purged', 'forgotten', 'corrected' },
  },
  run = function(p, a, now, w)
    local at = next_due(p)
    if not at or at > now then return answer(now, at, 0, NONE) end
    local counts = {}
    local fired = fire_due(w, p, now, counts, a.items_max)
    if fired < a.items_max then purge_ended(w, p, now, counts, a.items_max - fired) end
    writes.apply(w, p, now)
    for i = #w, 1, -1 do w[i] = nil end
    return answer(now, next_due(p), now - at, counts)
  end,
}

return true
