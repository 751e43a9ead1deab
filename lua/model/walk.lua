-- Walks: what is done to all members of a flow goes over them in the order in which they came, so
-- many at a time; where it stands is written with what was done, so that it survives everything.
--
--   release   a graph is whole: its members may run, or wait for their upstreams
--   cancel    the flow was cancelled
--   fail      a failure ends the others, but what makes up for it
--   expire    the flow's deadline has passed
--   remove    a graph that was never whole, or a flow whose retention is over, goes away

local keys = require('kernel.keys')
local limit = require('kernel.limit')
local number = require('kernel.number')
local commit = require('model.commit')
local due = require('model.due')
local edge = require('model.edge')
local ending = require('model.ending')
local event = require('model.event')
local flow = require('model.flow')
local log = require('model.log')
local purge = require('model.purge')
local record = require('model.record')
local runnable = require('model.runnable')
local state = require('model.state')

local walk = {}

local function release(w, f, x, now)
  if not x.held then return end
  record.drop(x, { 'held' })
  record.set(x, 'state', 'blocked')
  edge.reconsider(w, x, now, ending.finish)
end

local function cancel_member(w, x, now, f)
  record.set(x, 'cancel_reason', f.cancel_reason or 'flow_cancelled')
  record.set(x, 'cancelled_by', 'flow_cascade')
  record.drop(x, { 'held' })
  ending.finish(w, x, now, 'cancelled', 'flow_cancelled')
end

local function cancel(w, f, x, now)
  if flow.stops(f, x) then cancel_member(w, x, now, f) end
end

-- What makes up for a failure, or for that, is kept.
local function is_kept(w, x)
  if x.kept then return true end
  local edges = x.dependencies and edge.incoming(x, 0, limit.edges_per_call) or {}
  for i = 1, #edges do
    local up = edges[i] and record.read(w.p, edges[i].up)
    if up and up.kept then return true end
  end
  return false
end

local function fail(w, f, x, now)
  if is_kept(w, x) then
    record.set(x, 'kept', '1')
    commit(w, x)
  elseif flow.stops(f, x) then
    cancel_member(w, x, now, f)
  end
end

local function expire(w, _, x, now)
  record.set(x, 'failure_reason', 'flow_deadline')
  ending.finish(w, x, now, 'expired', 'flow_deadline')
end

local DO = { release = release, cancel = cancel, fail = fail, expire = expire }

-- A member that cannot be dealt with goes to a list of its own, so that it holds up nobody.
local function visit(w, f, what, uuid, now)
  local x = record.read(w.p, uuid)
  if not x then return end
  if not state.known(x.state) then
    w[#w + 1] = { 'SADD', keys.stuck(f.key), uuid }
    return
  end
  if not state.ENDED[x.state] then DO[what](w, f, x, now) end
end

-- Removes the record of a flow and everything that belongs to it alone.
local function forget(w, p, f)
  w[#w + 1] = { 'DEL', f.key, keys.members(f.key), keys.edge_ids(f.key), keys.stuck(f.key),
    keys.tags(f.key) }
  w[#w + 1] = { 'ZREM', p.flows, f.id }
  w[#w + 1] = { 'ZREM', p.due, flow.PREFIX .. f.id }
end

local function remove(w, p, f, now)
  local list = flow.members(f, 0, limit.walk_batch)
  for i = 1, #list, 2 do
    purge.member(w, p, list[i], now)
    w[#w + 1] = { 'ZREM', keys.members(f.key), list[i] }
  end
  if #list < 2 * limit.walk_batch then forget(w, p, f) end
end

-- Goes on with a walk.
local function step(w, p, f, now)
  local what, from = string.match(f.walk, '^(%l+):(%d+)$')
  if what == 'remove' then return remove(w, p, f, now) end
  local list = flow.members(f, from, limit.walk_batch)
  for i = 1, #list, 2 do visit(w, f, what, list[i], now) end
  if #list < 2 * limit.walk_batch then
    flow.drop(w, f, { 'walk' })
  else
    flow.set(w, f, { 'walk', what .. ':' .. number.text(tonumber(list[#list]) + 1) })
  end
  flow.retime(w, f)
end

-- What a flow's time means.
local function fire(w, p, f, now)
  if f.walk then return step(w, p, f, now) end
  if f.ended_at or f.graph and not f.sealed then
    flow.begin_walk(w, f, 'remove')
  elseif f.deadline_at and number.stored(f.deadline_at, 0) <= now then
    flow.drop(w, f, { 'deadline_at' })
    flow.begin_walk(w, f, 'expire')
    w[#w + 1] = log.entry(p, event.flow_text(f, 'flow_expired'))
  else
    flow.retime(w, f)
  end
end

-- The first step of a walk that was just begun, for whoever asked for it.
function walk.first(w, p, f, now) step(w, p, f, now) end

due.on[flow.PREFIX] = function(w, p, member, now)
  local f = flow.read(p, string.sub(member, 3))
  if f then fire(w, p, f, now) else w[#w + 1] = { 'ZREM', p.due, member } end
  return 'flows'
end

-- Goes on telling the edges of an execution of its end.
due.on[edge.PREFIX] = function(w, p, member, now)
  local x = record.read(p, string.sub(member, 3))
  if not x or not state.ENDED[x.state] or edge.tell(w, x, now, ending.finish) then
    w[#w + 1] = { 'ZREM', p.due, member }
  end
  return 'edges'
end

return walk
