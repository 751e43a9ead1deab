-- Tick: executes what is due in this partition, in bounded batches, and says when it is needed
-- next. The engine, which calls it for as long as it lives, says when it looks here next, and has
-- those who wait for work told now and then of what lies here, in case that a push was lost.

local arg = require('kernel.arg')
local define = require('kernel.define').define
local keys = require('kernel.keys')
local limit = require('kernel.limit')
local record = require('model.record')
local reply = require('kernel.reply')
local writes = require('kernel.writes')
local due = require('model.due')
local gate = require('model.gate')
local index = require('model.index')
local lane = require('model.lane')
local log = require('model.log')
local outbox = require('model.outbox')
local need = require('model.need')
local purge = require('model.purge')
local state = require('model.state')
local timer = require('model.timer')
require('model.walk')

-- Behind all times.
local NEVER = 2 * limit.timestamp_ms_max

local NONE = {}

-- An entry whose execution is not due (any more), or not here: it is put where its record says.
local function correct(w, p, key, uuid, x)
  local at = x and not state.ENDED[x.state] and index.due_at(x)
  local right = at and index.times(p, x.state)
  if at then w[#w + 1] = { 'ZADD', right, at, uuid } end
  if right ~= key then w[#w + 1] = { 'ZREM', key, uuid } end
  return 'corrected'
end

-- Does what an entry stands for; gives its name, or nil if a newer version must do it.
local function fire(w, p, key, member, now)
  local prefix = string.match(member, '^%l:')
  if prefix then return due.on[prefix] and due.on[prefix](w, p, member, now) end
  local x = record.read(p, member)
  if x and not state.known(x.state) then return nil end
  if x and index.times(p, x.state) ~= key then return correct(w, p, key, member, x) end
  return x and timer.fire(w, x, now) or correct(w, p, key, member, x)
end

local function due_members(key, now, from, most)
  return redis.call('ZRANGE', key, '-inf', string.format('%.0f', now), 'BYSCORE', 'LIMIT', from,
    most)
end

-- Fires what is due in an index, up to `most` entries. What is left alone stays where it is and
-- does not count; if the bound is reached, the next call goes on behind it. Gives how many were
-- fired, and how many were left alone.
local function fire_due(w, p, key, now, counts, most)
  local from, fired = p.left_alone[key] or 0, 0
  local strange, bound = from, from + most + limit.strange_scan_max
  while fired < most and from < bound do
    local step = most - fired
    local members = due_members(key, now, from, step)
    for i = 1, #members do
      local what = fire(w, p, key, members[i], now)
      if what then
        fired, counts[what] = fired + 1, (counts[what] or 0) + 1
      else
        strange = strange + 1
      end
    end
    if #members < step then
      p.left_alone[key] = nil
      return fired, strange
    end
    from = from + step
  end
  p.left_alone[key] = strange
  return fired, strange
end

local function purge_ended(w, p, now, counts, most)
  for i = 1, #state.OUTCOMES do
    local outcome = state.OUTCOMES[i]
    local members = due_members(p.ended[outcome], now, 0, most)
    for j = 1, #members do
      local what, cost = purge.execution(w, p, members[j], outcome, now)
      counts[what] = (counts[what] or 0) + 1
      most = most - cost
      if most <= 0 then return end
    end
  end
end

local function score_behind(key, skip)
  local head = redis.call('ZRANGE', key, skip, skip, 'WITHSCORES')
  return head[2] and tonumber(head[2])
end

-- Whether the next purge is to be looked for. Every end of an execution tells of its own; what was
-- written while another server was the primary is found by looking now and then.
local function is_purge_unknown(p, now)
  return p.purge_at <= now or now < p.purges_read_at
    or now >= p.purges_read_at + limit.purge_look_ms
end

-- The time of the next purge. Members of a flow go with it, which has a time of its own.
local function next_purge(p, now)
  if is_purge_unknown(p, now) then
    local at = NEVER
    for i = 1, #state.OUTCOMES do
      at = math.min(at, score_behind(p.ended[state.OUTCOMES[i]], 0) or NEVER)
    end
    p.purge_at, p.purges_read_at = at, now
  end
  return p.purge_at < limit.timestamp_ms_max and p.purge_at or NEVER
end

-- Does nothing run, wait, have a time or owe anything here? That is asked of every partition in
-- which nothing happens, so that one command has to do for it.
local function is_idle(p)
  return redis.call('EXISTS', p.leases, p.due, p.outbox, p.owing, p.queued) == 0
end

-- The next time anything is due here, behind so many entries of `leases` and `due` that are left
-- alone; nil if nothing ever is. In an idle partition only what is over has a time.
local function next_due(p, now, strange_leases, strange_due, idle)
  local at = next_purge(p, now)
  if not idle then
    at = math.min(at, score_behind(p.due, strange_due) or NEVER,
      score_behind(p.leases, strange_leases) or NEVER)
  end
  return at < NEVER and at or nil
end

-- Does what is due, at most so much of it. Gives the next time anything is due.
local function run_due(w, p, now, counts, most)
  local fired, strange_leases = fire_due(w, p, p.leases, now, counts, most)
  local strange_due = p.left_alone[p.due] or 0
  if fired < most then
    local others
    others, strange_due = fire_due(w, p, p.due, now, counts, most - fired)
    fired = fired + others
  end
  if fired < most then purge_ended(w, p, now, counts, most - fired) end
  writes.flush(w)
  return next_due(p, now, strange_leases, strange_due)
end

-- The best score of those who wait at the gate of an entry. If nobody does, the gate opens, and
-- there is nothing to tell.
local function best_waiting(w, p, name)
  local head = redis.call('ZRANGE', p.gate .. name, 0, 0, 'WITHSCORES')
  if head[2] then return string.format('%.0f', head[2]) end
  gate.reopen(w, p, name)
  return nil
end

-- What is owed now, up to so much: each entry, and behind it what is to be told with it.
local function owed_now(w, p, now, most)
  local list, rows, settled = outbox.take(w, p, now, most), {}, {}
  for i = 1, #list do
    local name, told = string.match(list[i], '^wait:[^:]*:%d+:%d+:(.*)$'), ''
    if name then told = best_waiting(w, p, name) end
    if told then
      rows[#rows + 1], rows[#rows + 2] = list[i], told
    else
      settled[#settled + 1] = list[i]
    end
  end
  writes.flush(w)
  outbox.settle(w, settled)
  writes.flush(w)
  return rows
end

-- What is owed now, and when that is to be looked at next.
local function owed(w, p, now, most)
  local at = score_behind(p.outbox, 0)
  if not at or at > now then return NONE, at end
  local rows = owed_now(w, p, now, most)
  return rows, score_behind(p.outbox, 0)
end

-- Tells those who wait for work what lies in the queues, and that this was all. Where there are too
-- many, whoever waits for that in vain looks by himself.
local function announce(w, p, idle)
  local lanes = idle and NONE or redis.call('ZRANGE', p.queued, 0, limit.announced_max)
  local rows = {}
  for i = 1, #lanes do
    local heads = lane.is_paused(p, lanes[i]) and NONE or need.heads(w, p, lanes[i])
    for j = 1, #heads do rows[#rows + 1] = heads[j] end
    if i + #rows > limit.announced_max then return end
  end
  for i = 1, #rows do
    local lane_id, name, score = unpack(rows[i])
    need.push(w, lane_id .. ':' .. name, score, 0)
  end
  writes.push(w, p.ready_channel, 'told')
end

local function answer(now, next_due_at, late_ms, counts, owing, entries)
  return reply.ok(now, next_due_at or '', late_ms, counts.promoted or 0, counts.lapsed or 0,
    counts.timed_out or 0, counts.expired or 0, counts.ungranted or 0, counts.purged or 0,
    counts.forgotten or 0, counts.corrected or 0, counts.suspensions or 0,
    counts.waitpoints or 0, counts.flows or 0, counts.edges or 0, owing, counts.gates or 0,
    entries)
end

define {
  name = 'ff_tick',
  doc = 'Executes what is due in a partition and tells when it is next needed.',
  flags = { 'allow-oom' },
  families = keys.ALL,
  args = {
    arg.int('items_max', 1, limit.tick_batch_max),
    arg.optional(arg.int('log_length_max', 1, limit.event_log_length), limit.event_log_length),
    arg.optional(arg.int('next_look_ms', 1, limit.tick_look_ms_max)),
    arg.optional(arg.int('announce', 0, 1), 0),
    arg.rest(arg.text('settled', limit.owed_bytes_max), 0, limit.releases_max),
  },
  gives = {
    OK = { 'now', 'next_due_at', 'late_ms', 'promoted', 'lapsed', 'timed_out', 'expired',
      'ungranted', 'purged', 'forgotten', 'corrected', 'suspensions', 'waitpoints', 'flows',
      'edges', 'owing', 'gates', 'owed' },
  },
  run = function(p, a, now, w)
    if a.settled[1] then
      outbox.settle(w, a.settled)
      writes.flush(w)
    end
    local idle = is_idle(p)
    local at, counts = next_due(p, now, 0, 0, idle), NONE
    local late_ms = at and math.max(now - at, 0) or 0
    if at and at <= now then
      idle, counts = false, {}
      at = run_due(w, p, now, counts, a.items_max)
    end
    log.tidy(p, now, a.log_length_max)
    local entries, owed_at = NONE, nil
    if not idle then entries, owed_at = owed(w, p, now, a.items_max) end
    if owed_at and (not at or owed_at < at) then at = owed_at end
    if a.announce == 1 then announce(w, p, idle) end
    if a.next_look_ms then writes.seen(w, math.min(at or NEVER, now + a.next_look_ms)) end
    return answer(now, at, late_ms, counts, idle and 0 or redis.call('ZCARD', p.owing), entries)
  end,
}

return true
