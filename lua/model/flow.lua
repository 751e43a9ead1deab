-- Flows: executions that depend on each other. A flow counts its members by state, so that its own
-- state is exact at all times; it ends when it is sealed and its last member has ended. What takes
-- more than one call goes over its members step by step, from a walk that the flow remembers and
-- `due` wakes (model/walk.lua).
--
--   kind, namespace, created_at, changed_at
--   revision, nodes, edges    how often the graph changed, its members and edges ever
--   graph         digest of a graph that is submitted whole: its members are held until it is
--   sealed        1: no members but from its running members
--   n:<state>, live, bad      members in each state, those not over, those whose failure counts
--   on_failure    fail_fast, or absent: the others go on
--   failing       the member whose failure ends the others
--   state         cancelled, or how it ended; absent while it lives
--   cancelled_at, cancel_reason, cancel_policy
--   started_at, ended_at, deadline_at, retention_ms
--   kept_until    not removed before, because of a member's idempotency key
--   expired       1 once the deadline has passed
--   walk          what is being done to all members, and from which ordinal on
--   stuck         members that could not be dealt with, which are listed apart

local keys = require('kernel.keys')
local limit = require('kernel.limit')
local number = require('kernel.number')
local event = require('model.event')
local log = require('model.log')
local runnable = require('model.runnable')
local state = require('model.state')
local writes = require('kernel.writes')

local flow = {}

-- The fields that count members by state, as a list and by the words of states.
local COUNTED = { 'held', 'blocked', 'waiting', 'delayed', 'running', 'suspended', 'lapsed',
  'revoked', 'success', 'failed', 'cancelled', 'expired', 'skipped', 'parked' }
local COUNTS, COUNT_OF = {}, {}
for i = 1, #COUNTED do
  COUNTS[i] = 'n:' .. COUNTED[i]
  COUNT_OF[COUNTED[i]] = COUNTS[i]
end

-- What stands for one in `due`.
flow.PREFIX = 'f:'

-- What a change of a member may have to know.
local READ = { 'created_at', 'state', 'sealed', 'live', 'bad', 'on_failure', 'failing',
  'cancel_policy', 'cancel_reason', 'started_at', 'ended_at', 'deadline_at', 'graph', 'changed_at',
  'retention_ms', 'kept_until', 'expired', 'walk', 'nodes', 'edges', 'revision', 'stuck',
  'cancelled_at' }
local COMMAND = { 'HMGET', '' }
for i = 1, #READ do COMMAND[i + 2] = READ[i] end

-- Naming the fields gives the table its size at once, as in model/record.lua.
local function blank(id, key)
  return { id = id, key = key, write = flow.write, fresh = nil, touched = nil, retime = nil,
    steps = nil, changes = nil, names = nil, created_at = nil, sealed = nil, live = nil, bad = nil,
    started_at = nil, graph = nil, nodes = nil, edges = nil }
end

local function keep(p, f)
  if not p.flows_read then p.flows_read = {} end
  p.flows_read[f.id] = f
  return f
end

-- A flow; nil if there is none of this id. Read again in the same call it is the same table.
function flow.read(p, id)
  local f = p.flows_read and p.flows_read[id]
  if f then return f end
  COMMAND[2] = p.flow .. id
  local values = redis.call(unpack(COMMAND))
  if not values[1] then return nil end
  f = blank(id, COMMAND[2])
  for i = 1, #READ do if values[i] then f[READ[i]] = values[i] end end
  return keep(p, f)
end

-- A flow that does not exist yet.
function flow.new(p, id)
  local f = blank(id, p.flow .. id)
  f.fresh = true
  return keep(p, f)
end

-- All stored fields of a flow, for who describes it; nil if there is none.
function flow.stored(p, id)
  local flat, stored = redis.call('HGETALL', p.flow .. id), {}
  if #flat == 0 then return nil end
  for i = 1, #flat, 2 do stored[flat[i]] = flat[i + 1] end
  return stored
end

-- It will be written at the end of the call, behind its members: that it ended is the last that the
-- log tells of it.
local function touch(w, f)
  if f.touched then return end
  f.touched = true
  writes.last(w, f)
end

-- Something happened in a flow: those who follow it are woken, once by each call.
function flow.tell(w, id)
  local told = w.flows_told or {}
  w.flows_told = told
  if told[id] then return end
  told[id] = true
  writes.push(w, w.p.flow_channel .. id, '1')
end

-- The flow goes away in this call: nothing of it is written any more.
function flow.forget(f) f.gone = true end

-- A field has another value from now on, or none.
local function change(f, name, value)
  f[name] = value
  if not f.changes then f.changes, f.names = {}, { nil, nil, nil, nil } end
  if f.changes[name] == nil then f.names[#f.names + 1] = name end
  f.changes[name] = value or false
end

-- Assigns fields, given as names and values in turn.
function flow.set(w, f, fields)
  touch(w, f)
  for i = 1, #fields, 2 do change(f, fields[i], fields[i + 1]) end
end

function flow.drop(w, f, names)
  touch(w, f)
  for i = 1, #names do if f[names[i]] then change(f, names[i], nil) end end
end

function flow.number(f, name) return number.stored(f[name], 0) end

-- The graph has so many nodes and edges more.
function flow.grow(w, f, nodes, edges, now)
  touch(w, f)
  change(f, 'changed_at', now)
  change(f, 'revision', flow.number(f, 'revision') + nodes + edges)
  if edges > 0 then change(f, 'edges', flow.number(f, 'edges') + edges) end
  if nodes == 0 then return end
  change(f, 'nodes', flow.number(f, 'nodes') + nodes)
  f.joined = true
end

local BAD = { failed = true, cancelled = true, expired = true }

-- A member went from one state to another, or came from none.
local function move(f, x, before, after)
  local steps, alive, lives = f.steps or {}, state.LIVE[before], state.LIVE[after]
  local from, to = COUNT_OF[before], COUNT_OF[after]
  if from then steps[from] = (steps[from] or 0) - 1 end
  steps[to] = (steps[to] or 0) + 1
  f.steps = steps
  if alive ~= lives then change(f, 'live', flow.number(f, 'live') + (lives and 1 or -1)) end
  if x.optional then return end
  if BAD[after] then change(f, 'bad', flow.number(f, 'bad') + 1) end
  if BAD[before] then change(f, 'bad', flow.number(f, 'bad') - 1) end
end

-- Counts a member whose state has changed since it was last counted: `counted`, or what it was
-- when it was read. One that joins was not.
function flow.count(w, x)
  local before, after = x.counted, x.state
  if before == nil then before = x.was end
  if before == after then return end
  x.counted = after
  local f = flow.read(w.p, x.flow_id)
  if not f then return end
  touch(w, f)
  move(f, x, before, after)
  if after == 'running' and not f.started_at then
    flow.set(w, f, { 'started_at', number.text(w.now) })
  end
  if f.ended_at and state.LIVE[after] then flow.reopen(w, f) end
end

-- A member of a flow that was over lives again.
function flow.reopen(w, f)
  flow.drop(w, f, { 'ended_at' })
  if f.state ~= 'cancelled' then flow.drop(w, f, { 'state' }) end
  f.retime = true
end

function flow.is_over(f) return f.state ~= nil or f.expired ~= nil end

-- Nobody is freed by what a cancel or the flow's deadline ended.
function flow.frees_nobody(f)
  return f.expired ~= nil or f.state == 'cancelled' and f.cancel_policy ~= 'flow_only'
end

-- Does the cancel of its flow end an execution? What was started before runs to its end if only the
-- rest is cancelled.
function flow.cancels(f, x)
  return f.cancel_policy == 'cancel_all' or f.cancel_policy == 'cancel_pending'
    and not runnable.has_begun(x)
end

-- May an execution of this flow not run any more?
function flow.stops(f, x)
  if f.expired then return true end
  if flow.frees_nobody(f) then return flow.cancels(f, x) end
  return f.failing ~= nil and not x.kept
end

-- Are members held until the graph is whole?
function flow.holds(f) return f.graph ~= nil and not f.sealed end

-- The same, asked about an execution: the flow that does not let it run; nil if none does not.
function flow.stopped(p, x)
  local f = x.flow_id and flow.read(p, x.flow_id)
  return f and flow.stops(f, x) and f or nil
end

-- The state to tell, from the counts.
function flow.state(stored)
  if stored.state then return stored.state end
  local function count(name) return number.stored(stored['n:' .. name], 0) end
  if count('running') > 0 then return 'running' end
  local claimable = count('waiting') + count('lapsed') + count('revoked')
  if number.stored(stored.live, 0) > 0 and claimable == 0 then return 'blocked' end
  return 'open'
end

-- When the flow needs attention by itself; nil if it does not.
function flow.due_at(f, now)
  if f.walk then return now end
  if f.ended_at then
    return math.max(flow.number(f, 'kept_until'), flow.number(f, 'ended_at')
      + number.stored(f.retention_ms, f.state == 'failed' and limit.failed_retention_ms_default
        or limit.retention_ms_default))
  end
  if flow.holds(f) then
    return flow.number(f, 'changed_at') + limit.graph_abandoned_ms
  end
  return f.deadline_at and not f.expired and flow.number(f, 'deadline_at') or nil
end

-- Begins to do something to all members, one after the other.
function flow.begin_walk(w, f, what)
  flow.set(w, f, { 'walk', what .. ':0' })
  f.retime = true
end

-- What is being done to all members; nil if nothing is.
function flow.walks(f) return f.walk and string.match(f.walk, '^%l+') end

-- A member cannot be dealt with. It goes to a list of its own, so that it holds up nobody.
function flow.stick(w, f, uuid, ordinal)
  local key = keys.stuck(f.key)
  if redis.call('ZSCORE', key, uuid) then return end
  w[#w + 1] = { 'ZADD', key, ordinal, uuid }
  flow.set(w, f, { 'stuck', number.text(flow.number(f, 'stuck') + 1) })
end

-- A member of that list was dealt with, or is given up.
function flow.unstick(w, f, uuid)
  local key, left = keys.stuck(f.key), flow.number(f, 'stuck') - 1
  if not redis.call('ZSCORE', key, uuid) then return end
  w[#w + 1] = { 'ZREM', key, uuid }
  if left > 0 then
    flow.set(w, f, { 'stuck', number.text(left) })
  else
    flow.drop(w, f, { 'stuck' })
  end
end

-- Is it going away, member by member?
function flow.is_removed(f) return flow.walks(f) == 'remove' end

-- Is it going away because nobody made it whole?
function flow.is_abandoned(f) return flow.holds(f) and flow.is_removed(f) end

-- A member failed whose failure ends the others. What makes up for it is known when the graph is
-- whole.
function flow.fail(w, f, x)
  if f.failing or f.state then return end
  flow.set(w, f, { 'failing', x.uuid })
  if flow.holds(f) then return end
  local walks = flow.walks(f)
  if not walks or walks == 'release' then flow.begin_walk(w, f, 'fail') end
end

-- What failed runs again: the others are not ended any more. The failure may have come before all
-- members of a graph were released.
function flow.forgive(w, f)
  flow.drop(w, f, { 'failing' })
  if flow.walks(f) == 'fail' then
    if f.graph and f.sealed then
      flow.begin_walk(w, f, 'release')
    else
      flow.drop(w, f, { 'walk' })
    end
  end
  f.retime = true
end

-- Times of the flow have changed.
function flow.retime(w, f)
  touch(w, f)
  f.retime = true
end

-- The flow is over when nobody can join and the last of its members has ended.
local function finish(w, f)
  if f.ended_at or f.walk or flow.number(f, 'live') > 0 then return end
  if not f.sealed and not flow.is_over(f) then return end
  local outcome = f.state or flow.number(f, 'bad') > 0 and 'failed' or 'completed'
  flow.set(w, f, { 'state', outcome, 'ended_at', number.text(w.now) })
  f.retime = true
  log.append(w.p, event.flow_text(f, 'flow_ended', outcome))
  writes.push(w, w.p.ended_channel, f.id)
end

local function write_times(w, f)
  local at, member = flow.due_at(f, w.now), flow.PREFIX .. f.id
  if not at then
    redis.call('ZREM', w.p.due, member)
    return
  end
  redis.call('ZADD', w.p.due, at, member)
  writes.due(w, at)
end

-- What is done to all members so that they end.
local ENDS = { cancel = true, fail = true, expire = true }

-- A flow is listed while it owes an end to members: they are still to come, or could not be dealt
-- with.
local function write_debt(w, f)
  local changes = f.changes
  if not changes or changes.walk == nil and changes.stuck == nil then return end
  local owes = ENDS[flow.walks(f) or ''] or f.stuck
  if owes then redis.call('ZADD', w.p.owing, 0, f.id) else redis.call('ZREM', w.p.owing, f.id) end
end

-- The counts of members that changed become part of a command. One that somebody made unreadable
-- stays as it is.
local function add_counts(f, sets)
  local steps, names = f.steps, { nil, nil, nil, nil }
  for i = 1, #COUNTS do
    local by = steps[COUNTS[i]]
    if by and by ~= 0 then names[#names + 1] = COUNTS[i] end
  end
  local values = f.fresh and {} or #names > 0 and redis.call('HMGET', f.key, unpack(names))
  for i = 1, #names do
    local count = number.parse(values[i] or '0')
    if count then sets[#sets + 1], sets[#sets + 2] = names[i], count + steps[names[i]] end
  end
end

local function write_fields(f)
  local sets, drops = { 'HSET', f.key, nil, nil, nil, nil, nil, nil }, { 'HDEL', f.key }
  for i = 1, f.names and #f.names or 0 do
    local name = f.names[i]
    if f.changes[name] then
      sets[#sets + 1], sets[#sets + 2] = name, f.changes[name]
    else
      drops[#drops + 1] = name
    end
  end
  if f.steps then add_counts(f, sets) end
  if #drops > 2 then redis.call(unpack(drops)) end
  if #sets > 2 then redis.call(unpack(sets)) end
end

-- Writes what changed; the end of the flow follows from its counts.
function flow.write(w, f)
  if f.gone then return end
  finish(w, f)
  flow.tell(w, f.id)
  write_fields(f)
  write_debt(w, f)
  if f.retime then write_times(w, f) end
  f.touched, f.retime, f.fresh, f.steps, f.changes, f.names = nil, nil, nil, nil, nil, nil
end

-- The members from an ordinal on: uuids and ordinals in turn.
function flow.members(f, from, most)
  return redis.call('ZRANGE', keys.members(f.key), from, '+inf', 'BYSCORE', 'LIMIT', 0, most,
    'WITHSCORES')
end

return flow
