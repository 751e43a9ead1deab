-- Indexes: which of the partition's indexes an execution is in follows from its record alone.
-- `sets` says where it is, `settle` moves it to where the changed record calls for.
--
--   queue of its lane   claimable and not reserved by a grant
--   due                 anything live that has a time to come
--   ended:<outcome>     over; scored by the time of the purge
--   all                 always

local event = require('kernel.event')
local keys = require('kernel.keys')
local limit = require('kernel.limit')
local number = require('kernel.number')
local state = require('model.state')

local index = {}

-- The record's fields that decide where it belongs.
index.FIELDS = { 'lane', 'created_at', 'priority', 'ageing_ms', 'delay_until', 'deadline_at',
  'timeout_at', 'lease_expires_at', 'grant_expires_at', 'ended_at', 'retention_ms' }

-- Lowest first. A priority step outweighs any age unless the policy says how much age it is worth.
function index.queue_score(x)
  local step = number.stored(x.ageing_ms, 1000000000000)
  return number.stored(x.created_at, 0) - number.stored(x.priority, 0) * step
end

local function earlier(a, b)
  if not a or b and b < a then return b end
  return a
end

-- The next time at which a live execution needs attention; nil if only others can move it.
function index.due_at(x)
  local at = number.stored(x.deadline_at, nil)
  if x.state == 'running' then
    -- A running attempt without a readable lease end is treated as lapsed.
    at = earlier(at, number.stored(x.lease_expires_at, 0))
    at = earlier(at, number.stored(x.timeout_at, nil))
  elseif x.state == 'delayed' then
    at = earlier(at, number.stored(x.delay_until, 0))
  end
  return earlier(at, number.stored(x.grant_expires_at, nil))
end

function index.purge_at(x)
  return number.stored(x.ended_at, 0) + number.stored(x.retention_ms, limit.retention_ms_default)
end

local function queued(x) return state.CLAIMABLE[x.state] and not x.grant_expires_at end

-- Where the record as it stands belongs.
function index.sets(x)
  if state.ENDED[x.state] then return { ended = x.state } end
  return { queue = queued(x) and x.lane, due = index.due_at(x) }
end

local function leave(w, p, x, was, now_in)
  if was.queue and not now_in.queue then w[#w + 1] = { 'ZREM', keys.queue(p, was.queue), x.uuid } end
  if was.due and not now_in.due then w[#w + 1] = { 'ZREM', keys.due(p), x.uuid } end
  if was.ended and was.ended ~= now_in.ended then
    w[#w + 1] = { 'ZREM', keys.ended(p, was.ended), x.uuid }
  end
end

-- Moves the execution from where it was to where its record now calls for.
function index.settle(w, p, x, was, now)
  local here = index.sets(x)
  leave(w, p, x, was, here)
  if here.ended and here.ended ~= was.ended then
    w[#w + 1] = { 'ZADD', keys.ended(p, here.ended), index.purge_at(x), x.uuid }
  end
  if here.queue then
    w[#w + 1] = { 'ZADD', keys.queue(p, here.queue), index.queue_score(x), x.uuid }
    if not was.queue then event.ready(w, p, here.queue) end
  end
  if here.due and here.due ~= was.due then
    w[#w + 1] = { 'ZADD', keys.due(p), here.due, x.uuid }
    event.due(w, p, here.due, now)
  end
end

return index
