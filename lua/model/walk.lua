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
local state = require('model.state')

local walk = {}

local function release(w, _, x, now)
  if not x.held then return end
  record.drop(x, { 'held' })
  record.set(x, 'state', 'blocked')
  edge.reconsider(w, x, now, ending.finish)
end

local function cancel(w, f, x, now)
  if flow.stops(f, x) or x.held then ending.end_member(w, x, now, f) end
end

local read_kept = record.reader { 'kept' }

-- Does one of the first upstreams make up for a failure? Then what follows it does too.
local function follows_kept(w, x)
  local edges = x.dependencies and edge.incoming(x, 0, limit.edges_per_call) or {}
  edge.spend(w, #edges)
  for i = 1, #edges do
    local up = edges[i] and read_kept(w.p, edges[i].up)
    if up and up.kept then return true end
  end
  return false
end

local function fail(w, f, x, now)
  if not x.kept and follows_kept(w, x) then
    record.set(x, 'kept', '1')
    commit(w, x)
  end
  if x.kept then return release(w, f, x, now) end
  ending.end_member(w, x, now, f)
end

local function expire(w, f, x, now) ending.end_member(w, x, now, f) end

local DO = { release = release, cancel = cancel, fail = fail, expire = expire }

-- Gives false for a member that cannot be dealt with.
local function visit(w, f, what, uuid, now)
  local x = record.read(w.p, uuid)
  if not x or not state.known(x.state) then return false end
  if not state.ENDED[x.state] then DO[what](w, f, x, now) end
  return true
end

-- How many more members this call may go over.
local function left(w) return w.members_left or limit.walk_batch end

-- Removes the record of a flow and everything that belongs to it alone.
local function forget(w, p, f)
  w[#w + 1] = { 'DEL', f.key, keys.members(f.key), keys.edge_ids(f.key), keys.stuck(f.key),
    keys.tags(f.key) }
  w[#w + 1] = { 'ZREM', p.flows, f.id }
  w[#w + 1] = { 'ZREM', p.owing, f.id }
  w[#w + 1] = { 'ZREM', p.due, flow.PREFIX .. f.id }
end

local function remove(w, p, f, now)
  local most = left(w)
  local list = flow.members(f, 0, most)
  w.members_left = most - #list / 2
  for i = 1, #list, 2 do
    purge.member(w, p, list[i], now)
    w[#w + 1] = { 'ZREM', p.due, edge.PREFIX .. list[i] }
    w[#w + 1] = { 'ZREM', keys.members(f.key), list[i] }
  end
  if #list < 2 * most then forget(w, p, f) end
end

-- Whoever is freed by the failure that ends the others must know it before their turn comes.
local function is_failure_told(w, p, f, now)
  local x = f.failing and record.read(p, f.failing)
  return not x or not state.ENDED[x.state] or edge.tell_on(w, x, now, ending.finish)
end

-- Goes over members from an ordinal on, as many as this call may. Gives where to go on; nil at the
-- end. Members that join in this very call are not listed yet.
local function visit_some(w, f, what, from, now)
  local most, at = left(w), from
  local list = flow.members(f, from, most)
  for i = 1, #list, 2 do
    if edge.left(w) <= 0 then return at end
    local ordinal = tonumber(list[i + 1])
    if not visit(w, f, what, list[i], now) then flow.stick(w, f, list[i], ordinal) end
    w.members_left, at = left(w) - 1, ordinal + 1
  end
  if #list == 2 * most or f.joined then return at end
  return nil
end

-- Goes on with a walk.
local function step(w, p, f, now)
  local what, from = string.match(f.walk, '^(%l+):(%d+)$')
  if what == 'remove' then return remove(w, p, f, now) end
  if what == 'fail' and not is_failure_told(w, p, f, now) then return end
  local on = what and visit_some(w, f, what, tonumber(from), now)
  if on then
    flow.set(w, f, { 'walk', what .. ':' .. number.text(on) })
  else
    flow.drop(w, f, { 'walk' })
  end
  flow.retime(w, f)
end

-- Begins to do something to all members, and does the first of it.
function walk.begin(w, p, f, what, now)
  flow.begin_walk(w, f, what)
  step(w, p, f, now)
end

-- What is done to members of a flow as it stands.
local function doing(f)
  if f.state == 'cancelled' then return 'cancel' end
  return f.expired and 'expire' or f.failing and 'fail' or 'release'
end

-- Tries members again that could not be dealt with, from an ordinal on, as many as one call may.
-- Gives how many were tried, how many of them were dealt with, and where to go on; nil at the end.
function walk.retry(w, f, from, now)
  local list = redis.call('ZRANGE', keys.stuck(f.key), from, '+inf', 'BYSCORE', 'LIMIT', 0,
    limit.walk_batch, 'WITHSCORES')
  local what, settled = doing(f), 0
  for i = 1, #list, 2 do
    if edge.left(w) <= 0 then return (i - 1) / 2, settled, tonumber(list[i + 1]) end
    if visit(w, f, what, list[i], now) then
      flow.unstick(w, f, list[i])
      settled = settled + 1
    end
  end
  local on = #list == 2 * limit.walk_batch and tonumber(list[#list]) + 1 or nil
  return #list / 2, settled, on
end

-- What a flow's time means.
local function fire(w, p, f, now)
  local at = flow.due_at(f, now)
  if not at or at > now then return flow.retime(w, f) end
  if f.walk then return step(w, p, f, now) end
  if f.ended_at or flow.holds(f) then return walk.begin(w, p, f, 'remove', now) end
  flow.set(w, f, { 'expired', '1' })
  w[#w + 1] = log.entry(p, event.flow_text(f, 'flow_expired'))
  walk.begin(w, p, f, 'expire', now)
end

-- Does a newer version know what is being done?
local function is_strange(f)
  local what = flow.walks(f)
  return what and what ~= 'remove' and not DO[what]
end

due.on[flow.PREFIX] = function(w, p, member, now)
  -- The next call goes on.
  if left(w) <= 0 then return 'flows' end
  local f = flow.read(p, string.sub(member, 3))
  if f and is_strange(f) then return nil end
  if f then fire(w, p, f, now) else w[#w + 1] = { 'ZREM', p.due, member } end
  return 'flows'
end

-- Goes on telling the edges of an execution of its end, if there is anybody left whom it concerns.
due.on[edge.PREFIX] = function(w, p, member, now)
  if edge.left(w) <= 0 then return 'edges' end
  local x = record.read(p, string.sub(member, 3))
  local f = x and state.ENDED[x.state] and x.flow_id and flow.read(p, x.flow_id)
  if f and not flow.frees_nobody(f) then
    edge.tell_on(w, x, now, ending.finish)
  else
    w[#w + 1] = { 'ZREM', p.due, member }
  end
  return 'edges'
end

return walk
