-- Indexes: where an execution is listed follows from its record alone. A record remembers where it
-- was listed when it was read; `write` writes it and moves its entries to where it now belongs.
--
--   queue of lane, need claimable and not reserved by a grant
--   leases              running, by the next time it needs attention
--   suspended           suspended, by since when
--   parked              live and not to be claimed (any more), by since when
--   gate:<gate>         parked at a closed gate, by the score in the queue
--   due                 live but not running, with a time to come
--   ended:<outcome>     over; scored by the time of the purge
--   all                 always

local limit = require('kernel.limit')
local number = require('kernel.number')
local writes = require('kernel.writes')
local fair = require('model.fair')
local gate = require('model.gate')
local log = require('model.log')
local need = require('model.need')
local record = require('model.record')
local state = require('model.state')

local index = {}

local stored, push, due, append = number.stored, writes.push, writes.due, log.append
local CLAIMABLE, ENDED, LIVE = state.CLAIMABLE, state.ENDED, state.LIVE
local STRICT_STEP = 1000000000000
local RETENTION_MS = limit.retention_ms_default
local FAILED_RETENTION_MS = limit.failed_retention_ms_default

-- Lowest first. A priority step outweighs any age unless the policy says how much age it is worth.
local function score_in_order(x)
  local created_at, priority = stored(x.created_at, 0), x.priority
  if not priority then return created_at end
  return created_at - stored(priority, 0) * stored(x.ageing_ms, STRICT_STEP)
end

-- The same, but for fair lanes, where what enters the queue is given its rank.
local function queue_score(p, x) return fair.rank(p, x, CLAIMABLE[x.was]) or score_in_order(x) end

-- The score that an execution has in its queue, or would have.
function index.score(x) return stored(x.fair_rank, nil) or score_in_order(x) end

-- What the queue of an execution is called, behind the partition's own part of its key. None of
-- what it is made of ever changes, so that a call makes it once.
function index.queue_name(x)
  local name = x.queue_name
  if not name then
    name = x.lane .. ':' .. need.of(x)
    x.queue_name = name
  end
  return name
end

-- The queue that an execution waits in, wherever it stands now; nil if a damaged record lacks its
-- lane.
function index.queue_of(p, x) return x.lane and p.queue .. index.queue_name(x) end

-- Collects what workers are told of queues: how many joined, and the best score among them. Most
-- calls concern one queue.
local function tell_ready(w, name, score, count)
  if not w.ready then
    w.ready, w.best, w.count = name, score, count
    return
  end
  if w.ready == name then
    w.best, w.count = math.min(w.best, score), w.count + count
    return
  end
  local others = w.others or {}
  w.others = others
  local other = others[name]
  if not other then
    other = { name = name, best = score, count = 0 }
    others[name], others[#others + 1] = other, other
  end
  other.best, other.count = math.min(other.best, score), other.count + count
end

-- The names of the queues that something has joined in this call.
function index.each_joined(w, visit)
  if not w.ready then return end
  visit(w.ready)
  local others = w.others
  for i = 1, others and #others or 0 do visit(others[i].name) end
end

-- One of those who joined a queue, or another in its place, is taken in the same call: nobody need
-- be told of it.
local function tell_taken(w, name)
  local told = w.ready == name and w or w.others and w.others[name]
  if told and told.count > 0 then told.count, told.taken = told.count - 1, true end
end

local function push_ready(w, name, told)
  if told.count > 0 or not told.taken then need.push(w, name, told.best, told.count) end
end

-- Once per call and queue, whatever number joined it.
local function announce(w)
  push_ready(w, w.ready, w)
  local others = w.others
  for i = 1, others and #others or 0 do push_ready(w, others[i].name, others[i]) end
end

local function earlier(at, text)
  local other = stored(text, 0)
  if at and at < other then return at end
  return other
end

-- The next time at which a live execution needs attention; nil if only others can move it. What is
-- not readable counts as long past.
function index.due_at(x)
  local word, at = x.state, nil
  if word == 'running' then
    at = stored(x.lease_expires_at, 0)
    if x.timeout_at then at = earlier(at, x.timeout_at) end
  elseif word == 'delayed' then
    at = stored(x.delay_until, 0)
  elseif word == 'suspended' and x.suspend_until then
    at = stored(x.suspend_until, 0)
  end
  if x.deadline_at then at = earlier(at, x.deadline_at) end
  if x.grant_expires_at then at = earlier(at, x.grant_expires_at) end
  return at
end

-- The index that has the times of what is in this state: what runs is apart, so that a worker's
-- leases are found among what runs and not among all that waits.
function index.times(p, word) return word == 'running' and p.leases or p.due end

-- The index that had a time of this execution when it was read, if one had.
local function timed_before(p, x)
  local was, lane = x.was, x.lane
  if was == 'running' then return p.leases end
  if was == 'delayed' or was == 'suspended' then return p.due end
  if LIVE[was] and (x.reserved or x.timed or x.deadline_at) then return p.due end
  return nil
end

-- How long an end of this kind is kept where nobody says anything.
function index.retention_ms(word)
  return (word == 'failed' or word == 'expired') and FAILED_RETENTION_MS or RETENTION_MS
end

-- What is over is kept for its retention, and while its idempotency key may still be asked for.
function index.purge_at(x)
  -- What belongs to a flow goes with it.
  if x.flow_id then return limit.timestamp_ms_max end
  local kept, at = index.retention_ms(x.state), stored(x.ended_at, 0)
  if x.retention_ms then kept = stored(x.retention_ms, RETENTION_MS) end
  if x.remembered_until then return math.max(at + kept, stored(x.remembered_until, 0)) end
  return at + kept
end

-- Entries of an index whose time comes about `ttl_ms` from now: what a call gave such a time a
-- moment ago lies a little before that, or behind it if the clock was set back.
function index.about(key, now, ttl_ms)
  local at, most = string.format('%.0f', now + ttl_ms), limit.claim_recall_max / 2
  local list = redis.call('ZRANGE', key, at, '(' .. string.format('%.0f', now), 'BYSCORE', 'REV',
    'LIMIT', 0, most)
  local behind = redis.call('ZRANGE', key, '(' .. at, '+inf', 'BYSCORE', 'LIMIT', 0, most)
  for i = 1, #behind do list[#list + 1] = behind[i] end
  return list
end

-- The gate that an execution was parked at when it was read; nil if at none.
local function gate_before(x)
  return x.was == 'parked' and x.was_park_reason and gate.waits_at(x, x.was_park_reason) or nil
end

-- Who waits at a closed gate is listed there.
local function list_at_gate(call, p, x)
  local before = gate_before(x)
  local after = x.state == 'parked' and gate.waits_at(x, x.park_reason) or nil
  if before and before ~= after then call('ZREM', p.gate .. before, x.uuid) end
  if after then call('ZADD', p.gate .. after, index.score(x), x.uuid) end
end

-- An execution that is over leaves the live indexes; it was in the queue of this name, if any.
local function write_ended(call, w, x, name)
  local p = w.p
  local uuid, ended, purge_at, before = x.uuid, p.ended[x.state], index.purge_at(x),
    timed_before(p, x)
  record.write(x)
  if name then call('ZREM', p.queue .. name, uuid) end
  if before then call('ZREM', before, uuid) end
  if x.was == 'suspended' then call('ZREM', p.suspended, uuid) end
  if x.was_parked_at then call('ZREM', p.parked, uuid) end
  if x.quota_id or x.budgets then list_at_gate(call, p, x) end
  call('ZADD', ended, purge_at, uuid)
  if not x.flow_id and purge_at < p.purge_at then p.purge_at = purge_at end
  due(w, purge_at)
  local list = w.ended_names
  if list then list[#list + 1] = uuid else push(w, p.ended_channel, uuid) end
end

-- What is suspended is listed by since when it is.
local function list_suspended(call, p, x)
  if x.state == x.was then return end
  if x.state == 'suspended' then
    call('ZADD', p.suspended, stored(x.transition_at, 0), x.uuid)
  elseif x.was == 'suspended' then
    call('ZREM', p.suspended, x.uuid)
  end
end

-- What must not be claimed is listed from when somebody said so, also while it still runs or waits
-- for something else.
local function list_parked(call, p, x)
  local at = x.parked_at
  if at == x.was_parked_at then return end
  if at then
    call('ZADD', p.parked, stored(at, 0), x.uuid)
  else
    call('ZREM', p.parked, x.uuid)
  end
end

-- Puts an execution into its queue. A need that is new to the lane is noted, and so is one that was
-- forgotten while nobody had it.
local function enqueue(call, w, x, name, score, queued)
  local p = w.p
  call('ZADD', p.queue .. name, score, x.uuid)
  if not queued and not x.need_known then need.note(p, x) end
  tell_ready(w, name, score, queued and 0 or 1)
end

-- Puts an execution that can be claimed into its queue, although nothing about it changes.
function index.list_again(w, x)
  if not x.lane or not CLAIMABLE[x.state] or x.grant_expires_at then return end
  w[#w + 1] = { 'ZADD', w.p.queue .. index.queue_name(x), queue_score(w.p, x), x.uuid }
  w[#w + 1] = { write = need.note_late, x = x }
end

-- A live execution: the name of its queue, and whether it was in there.
local function write_live(call, w, x, name, queued)
  local p = w.p
  local uuid, at, before = x.uuid, index.due_at(x), timed_before(p, x)
  local after = at and index.times(p, x.state)
  local score = name and CLAIMABLE[x.state] and not x.grant_expires_at and queue_score(p, x)
  record.write(x)
  if score then
    enqueue(call, w, x, name, score, queued)
  elseif queued then
    call('ZREM', p.queue .. name, uuid)
    if w.ready then tell_taken(w, name) end
  end
  if after then
    call('ZADD', after, at, uuid)
    due(w, at)
  end
  if before and before ~= after then call('ZREM', before, uuid) end
  list_suspended(call, p, x)
  list_parked(call, p, x)
  if x.quota_id or x.budgets then list_at_gate(call, p, x) end
  if ENDED[x.was] then
    call('ZREM', p.ended[x.was], uuid)
    p.purge_at = 0
  end
end

-- Writes a changed record, its entries in the indexes and its event, and collects the pushes that
-- follow. All that is derived is derived before the first write. A damaged record may lack its
-- lane; one in a state that a newer version brought is that version's to change.
function index.write(w, x)
  local was, lane = x.was, x.lane
  if not x.moved then
    record.write(x)
  elseif was and not LIVE[was] and not ENDED[was] then
    error('execution ' .. x.uuid .. ' is in a state that this version does not know')
  else
    local queued = lane and CLAIMABLE[was] and not x.reserved
    local name = lane and (queued or CLAIMABLE[x.state]) and index.queue_name(x)
    local call = w.call or redis.call
    if ENDED[x.state] then
      write_ended(call, w, x, queued and name)
    else
      write_live(call, w, x, name, queued)
    end
    if was == 'running' and x.state ~= was and (x.quota_id or x.budgets) then
      gate.release(w, x)
    end
  end
  if x.event then append(w.p, x.event) end
end

local function forget(p)
  p.first_read, p.read, p.waitpoints, p.flows_read, p.facts_read = nil, nil, nil, nil, nil
  p.throttled, p.turns_taken = nil, nil
end

writes.teach(index.write, announce, forget)

return index
