-- Indexes: where an execution is listed follows from its record alone. A transition asks `places`
-- before it changes the record, and `settle` moves the entry to where the changed record belongs.
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
local STRICT_STEP = 1000000000000

-- Lowest first. A priority step outweighs any age unless the policy says how much age it is worth.
function index.queue_score(x)
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
  local at = stored(x.ended_at, 0) + stored(x.retention_ms, limit.retention_ms_default)
  return x.remembered_until and math.max(at, stored(x.remembered_until, 0)) or at
end

-- Where a live execution is listed: the lane whose queue it is in, and its time in `due`.
function index.places(x)
  local queued = state.CLAIMABLE[x.state] and not x.grant_expires_at
  return queued and x.lane or nil, index.due_at(x)
end

-- As `places`, for an execution that leaves them all: whether it is in `due`, not since when.
function index.membership(x)
  local queued = state.CLAIMABLE[x.state] and not x.grant_expires_at
  local timed = x.state == 'running' or x.state == 'delayed'
  return queued and x.lane or nil, timed or x.deadline_at or x.grant_expires_at
end

-- Takes an execution that is over out of the live indexes.
function index.leave(w, p, x, queue, due)
  if queue then w[#w + 1] = { 'ZREM', p.queue .. queue, x.uuid } end
  if due then w[#w + 1] = { 'ZREM', p.due, x.uuid } end
end

-- Moves a live execution from where it was to where its record now belongs.
function index.settle(w, p, x, was_queue, was_due, now)
  local queue, due = index.places(x)
  if queue then
    w[#w + 1] = { 'ZADD', p.queue .. queue, index.queue_score(x), x.uuid }
    if not was_queue then event.ready(w, p, queue) end
  elseif was_queue then
    w[#w + 1] = { 'ZREM', p.queue .. was_queue, x.uuid }
  end
  if not due then
    if was_due then w[#w + 1] = { 'ZREM', p.due, x.uuid } end
  elseif due ~= was_due then
    w[#w + 1] = { 'ZADD', p.due, due, x.uuid }
    event.due(w, p, due, now)
  end
end

return index
