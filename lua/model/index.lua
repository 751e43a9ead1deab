-- Indexes: where an execution is listed follows from its record alone. A record remembers where it
-- was listed when it was read; `commit` writes it and moves its entries to where it now belongs.
--
--   queue of its lane   claimable and not reserved by a grant
--   due                 live, with a time to come
--   ended:<outcome>     over; scored by the time of the purge
--   all                 always

local event = require('kernel.event')
local limit = require('kernel.limit')
local number = require('kernel.number')
local state = require('model.state')

local index = {}

local stored = number.stored
local CLAIMABLE = state.CLAIMABLE
local STRICT_STEP = 1000000000000
local LOG_LENGTH = number.constant(limit.event_log_length)
local TRIM_EVERY = 64
local RETENTION_MS = limit.retention_ms_default

-- Lowest first. A priority step outweighs any age unless the policy says how much age it is worth.
local function queue_score(x)
  local created_at, priority = stored(x.created_at, 0), x.priority
  if not priority then return created_at end
  return created_at - stored(priority, 0) * stored(x.ageing_ms, STRICT_STEP)
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
  end
  if x.deadline_at then at = earlier(at, x.deadline_at) end
  if x.grant_expires_at then at = earlier(at, x.grant_expires_at) end
  return at
end

-- What is over is kept for its retention, and while its idempotency key may still be asked for.
function index.purge_at(x)
  local kept, at = RETENTION_MS, stored(x.ended_at, 0)
  if x.retention_ms then kept = stored(x.retention_ms, RETENTION_MS) end
  if x.remembered_until then return math.max(at + kept, stored(x.remembered_until, 0)) end
  return at + kept
end

-- Live executions whose time comes about `ttl_ms` from now: what a call gave such a time a moment
-- ago lies a little before that, or behind it if the clock was set back.
function index.due_about(p, now, ttl_ms)
  local at, most = string.format('%.0f', now + ttl_ms), limit.claim_recall_max / 2
  local list = redis.call('ZRANGE', p.due, at, '(' .. string.format('%.0f', now), 'BYSCORE', 'REV',
    'LIMIT', 0, most)
  local behind = redis.call('ZRANGE', p.due, '(' .. at, '+inf', 'BYSCORE', 'LIMIT', 0, most)
  for i = 1, #behind do list[#list + 1] = behind[i] end
  return list
end

-- Writes the record: what is removed first, so that a field can be given a new value.
local function save(call, x)
  if x.drops then call(unpack(x.drops)) end
  if x.sets then call(unpack(x.sets)) end
end

-- Appends to the log. Trimming costs a fifth of that, so it is done only now and then.
local function log(call, p, text)
  local untrimmed = p.untrimmed + 1
  if untrimmed < TRIM_EVERY then
    p.untrimmed = untrimmed
    call('XADD', p.log, '*', 'e', text)
  else
    p.untrimmed = 0
    call('XADD', p.log, 'MAXLEN', '~', LOG_LENGTH, '*', 'e', text)
  end
end

-- An execution that is over leaves the live indexes; it was in this queue, if any.
local function commit_ended(call, p, x, queue)
  local uuid, ended, purge_at = x.uuid, p.ended[x.state], index.purge_at(x)
  save(call, x)
  if queue then call('ZREM', queue, uuid) end
  call('ZREM', p.due, uuid)
  call('ZADD', ended, purge_at, uuid)
  if x.event then log(call, p, x.event) end
  call('SPUBLISH', p.ended_channel, uuid)
end

-- A live execution: the queue of its lane, and whether it was in there.
local function commit_live(call, p, x, queue, queued, now)
  local uuid, was, due = x.uuid, x.was, index.due_at(x)
  local score = queue and CLAIMABLE[x.state] and not x.grant_expires_at and queue_score(x)
  save(call, x)
  if score then
    call('ZADD', queue, score, uuid)
    if not queued then call('SPUBLISH', p.ready_channel, x.lane) end
    if p.ended[was] then call('ZREM', p.ended[was], uuid) end
  elseif queued then
    call('ZREM', queue, uuid)
  end
  if due then
    call('ZADD', p.due, due, uuid)
    if event.is_soon(due, now) then call('SPUBLISH', p.due_channel, due) end
  elseif was then
    call('ZREM', p.due, uuid)
  end
  if x.event then log(call, p, x.event) end
end

-- Writes a changed record, its entries in the indexes, its event and the pushes that follow. All
-- that is derived is derived before the first write. A damaged record may lack its lane.
function index.commit(p, x, now)
  local queue = x.lane and p.queue .. x.lane
  local queued = queue and CLAIMABLE[x.was] and not x.reserved
  if state.ENDED[x.state] then return commit_ended(redis.call, p, x, queued and queue) end
  return commit_live(redis.call, p, x, queue, queued, now)
end

return index
