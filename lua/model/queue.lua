-- Queues: walking what a worker may claim of a lane, from the best on: one queue that the caller
-- names, or all of the lane that suit the worker.

local arg = require('kernel.arg')
local blob = require('model.blob')
local limit = require('kernel.limit')
local number = require('kernel.number')
local record = require('model.record')
local reply = require('kernel.reply')
local capability = require('model.capability')
local claim = require('model.claim')
local commit = require('model.commit')
local ending = require('model.ending')
local fair = require('model.fair')
local flow = require('model.flow')
local gate = require('model.gate')
local index = require('model.index')
local need = require('model.need')
local state = require('model.state')

local queue = {}

-- The queue to take from: `namespace:kind`, and behind another colon the capabilities required.
function queue.need() return arg.optional(arg.text('need', limit.need_bytes_max), false) end

-- Nothing with a greater score is taken: something better is known elsewhere.
function queue.score_max()
  return arg.optional(arg.custom('score_max', function(text)
    local score = number.parse(text)
    if not score then return nil, 'must be a whole number' end
    return score
  end))
end

-- What the worker of a call can do; or nil and a refusal. What it must be able to do in order to
-- take from the queue it names is checked again here.
function queue.worker(a)
  local has, wrong = capability.parse(a.capabilities)
  if not has then return nil, reply.refuse('invalid_capabilities', 'worker:' .. wrong) end
  local missing = a.need and need.missing(a.need, has)
  if missing then return nil, reply.refuse('capability_mismatch', missing) end
  return has
end

-- An entry of the queue whose record does not belong there: somebody wrote around the library.
-- It is removed, so that it cannot block the queue.
local function belongs(w, p, q, uuid, x)
  if x and state.CLAIMABLE[x.state] and not x.grant_expires_at and x.lane
    and index.queue_name(x) == q.name then
    return true
  end
  w[#w + 1] = { 'ZREM', p.queue .. q.name, uuid }
  return false
end

-- Nobody does work that its flow ends, although its turn has not come.
local function end_if_stopped(w, p, x, now)
  local f = flow.stopped(p, x)
  if not f then return false end
  ending.end_member(w, x, now, f)
  return true
end

-- Nobody can do work whose input is gone.
local function fail_if_lost(w, x, now)
  if not blob.lost(x, 'payload') then return false end
  record.set(x, 'failure_reason', 'payload_lost')
  record.set(x, 'failure_category', 'data_lost')
  ending.finish(w, x, now, 'failed', 'payload_lost')
  return true
end

-- Nobody passes a gate that was closed meanwhile.
local function held_back(w, p, x, now)
  if not (x.quota_id or x.budgets) or not gate.park_if_closed(p, x) then return false end
  record.set(x, 'transition_at', now)
  commit(w, x, 'blocked', x.park_reason)
  return true
end

-- Goes on to the next entry of a queue, reading so many at once. Behind the last one it has none.
local function advance(p, q, step)
  local page, at = q.page, q.at + 2
  if not page[at] and not q.ended then
    local from = q.from
    page = redis.call('ZRANGE', p.queue .. q.name, from, from + step - 1, 'WITHSCORES')
    at, q.page, q.from, q.ended = 1, page, from + step, #page < 2 * step
  end
  local uuid = page[at]
  q.at, q.uuid, q.score = at, uuid, uuid and tonumber(page[at + 1])
end

local NO_PAGE = {}

local function open(p, name, step)
  local q = { name = name, page = NO_PAGE, at = 0, from = 0, ended = false, uuid = nil,
    score = nil }
  advance(p, q, step)
  return q
end

-- The names of the queues that a worker may take from: the one it names, or all of the lane that
-- suit it.
function queue.names(p, a, has)
  if a.need then return { a.lane .. ':' .. a.need } end
  local list, needs = {}, need.list(p, a.lane)
  for i = 1, #needs do
    if need.can_take(needs[i], a, has) then list[#list + 1] = a.lane .. ':' .. needs[i] end
  end
  return list
end

local function open_all(p, names, step)
  local queues = {}
  for i = 1, #names do queues[i] = open(p, names[i], step) end
  return queues
end

-- Of equals the one that comes first in a queue of its own.
local function comes_before(q, other)
  return q.score < other.score or q.score == other.score and q.uuid < other.uuid
end

-- The queue with the best head; nil if all are empty.
local function best_of(queues)
  local best = queues[1]
  if best and not best.uuid then best = nil end
  for i = 2, #queues do
    local q = queues[i]
    if q.uuid and (not best or comes_before(q, best)) then best = q end
  end
  return best
end

-- Does with an entry what is to be done; false if the walk ends with it, nil if it is in a state
-- that a newer version brought, which is left alone.
local function look_at(w, p, q, uuid, now, visit)
  local x = record.read(p, uuid)
  if x and not state.known(x.state) then return nil end
  if not belongs(w, p, q, uuid, x) or not claim.in_time(x, now) then return true end
  return end_if_stopped(w, p, x, now) or fail_if_lost(w, x, now) or held_back(w, p, x, now)
    or visit(x)
end

-- Calls `visit` with each execution of these queues of a lane that could be taken, best first,
-- until it answers false, the next one is behind `score_max`, or the bound is reached. `count` is
-- how many will probably do. Gives the score of the next one; the empty text if there is none.
function queue.walk(w, p, a, names, now, count, visit)
  local step, looked, strange = count + 1, 0, 0
  local most = a.score_max and fair.score_max(p, a.lane, a.score_max)
  local queues = open_all(p, names, step)
  local q, touched = best_of(queues), nil
  while q and looked < limit.claim_scan_max and strange < limit.strange_scan_max
    and (not most or q.score <= most) do
    local uuid, from = q.uuid, q
    advance(p, q, step)
    touched = (looked == 0 or touched == from) and from
    local goes_on = look_at(w, p, from, uuid, now, visit)
    if goes_on == nil then strange = strange + 1 else looked = looked + 1 end
    q = best_of(queues)
    if goes_on == false then break end
  end
  if most ~= a.score_max then
    fair.catch_up(w, p, a.lane, q and math.min(q.score, most) or most)
  end
  if touched then need.push_left(w, touched.name, touched.uuid and touched.score) end
  return q and q.score or ''
end

return queue
