-- Fair lanes: those who share a lane, told apart by namespace or by a tag, are served in turn, each
-- in the order of submission. What enters the queue is given a rank, which is its score there: half
-- a share before what was served last, or one share behind the latest of its own key, whatever is
-- more. So who submits a million is a million shares ahead of itself, and who submits one is next,
-- also before those in other partitions whose turn is the one that is being served. Ranks begin at
-- the time since when the lane is fair, in all partitions, so that they compare, and lie behind
-- what waited in order before; how far the others are is told by every claim.

local keys = require('kernel.keys')
local limit = require('kernel.limit')
local number = require('kernel.number')
local record = require('model.record')
local lane = require('model.lane')

local fair = {}

-- How far one step of weight 1 goes, so that half a share is a whole number; with weights their
-- shares are, too.
local SHARE, WEIGHED_SHARE = 2, 1000

-- Members of the sorted set of a lane: what was served last, and the latest rank of each key.
local SERVED, KEY = 'served', 'key:'

-- Entries that each one who enters may remove: more than it adds, so that the set stays small.
local REMOVED_MAX = 2

-- Who the execution belongs to, among those who share the lane.
local function key_of(x, by)
  if by == 'namespace' then return x.namespace or '' end
  return x.tagged and redis.call('HGET', keys.tags(x.key), by) or ''
end

local function share_of(settings) return settings.weights and WEIGHED_SHARE or SHARE end

local function cost(settings, key)
  local weights = settings.weights
  if not weights then return SHARE end
  return math.max(1, math.floor(WEIGHED_SHARE / (weights.values[key] or 1) + 0.5))
end

-- Keys that are next anyway need not be remembered.
local function forget_old(shares, settings, first)
  local most = first - share_of(settings)
  local old = redis.call('ZRANGE', shares, '-inf', number.text(most), 'BYSCORE', 'LIMIT', 0,
    REMOVED_MAX + 1)
  for i = 1, math.min(#old, REMOVED_MAX) do redis.call('ZREM', shares, old[i]) end
end

-- How far the lane was served.
local function served_in(shares)
  return number.stored(redis.call('ZSCORE', shares, SERVED), 0)
end

-- Gives an execution that enters the queue of a fair lane its rank. It is asked for while the call
-- writes, when what else it writes is known.
local function enter(p, x, settings)
  local shares = p.shares .. x.lane
  local key = key_of(x, settings.fair_by or 'namespace')
  local first = math.max(served_in(shares) - share_of(settings) / 2, settings.fair_since or 0)
  local latest = number.stored(redis.call('ZSCORE', shares, KEY .. key), nil)
  local rank = latest and math.max(first, latest + cost(settings, key)) or first
  redis.call('ZADD', shares, number.text(rank), KEY .. key)
  forget_old(shares, settings, first)
  record.set(x, 'fair_rank', number.text(rank))
  return rank
end

-- The rank of an execution that is about to be written as claimable; nil if its lane is in order.
-- What was in the queue, or was reserved, keeps its rank.
function fair.rank(p, x, was_claimable)
  local settings = lane.settings(p, x.lane)
  if settings.order ~= 'fair' then
    if x.fair_rank then record.drop(x, { 'fair_rank' }) end
    return nil
  end
  if not x.whole then record.read(p, x.uuid) end
  return was_claimable and number.stored(x.fair_rank, nil) or enter(p, x, settings)
end

-- The greatest score that may be taken where the best one elsewhere is known, but for what one may
-- overtake another by: ranks are exact.
function fair.score_max(p, name, score_max)
  if lane.settings(p, name).order ~= 'fair' then return score_max end
  return score_max - limit.overtake_ms
end

-- Notes how far a fair lane was served, here or elsewhere.
function fair.catch_up(w, p, name, rank)
  local shares = p.shares .. name
  if served_in(shares) < rank then
    w[#w + 1] = { 'ZADD', shares, number.text(rank), SERVED }
  end
end

-- An execution is handed out: with it, its rank was served.
function fair.serve(w, p, x)
  local rank = number.stored(x.fair_rank, nil)
  if not rank then return end
  record.drop(x, { 'fair_rank' })
  fair.catch_up(w, p, x.lane, rank)
end

return fair
