-- Reopening: a member of a flow that is over runs again, so what its end had meant for others is
-- taken back. Who never started because of it waits again; who did start keeps what it has.

local keys = require('kernel.keys')
local limit = require('kernel.limit')
local number = require('kernel.number')
local children = require('model.children')
local commit = require('model.commit')
local edge = require('model.edge')
local ending = require('model.ending')
local flow = require('model.flow')
local record = require('model.record')
local runnable = require('model.runnable')

local reopening = {}

-- Did the end of an upstream end it before it began?
local function never_began(x)
  if x.attempt_count then return false end
  return x.state == 'skipped' or x.state == 'cancelled' and x.cancelled_by == 'flow_cascade'
end

local function told(x) return number.stored(x.edges_resolved, 0) end

-- Takes back what a downstream was told of the end of an upstream. Gives false if that is more than
-- one call may do.
local function untell(p, up, one, list)
  local down = one and one.applied and record.read(p, one.down)
  if not down then return nil end
  if number.stored(down.inputs, 0) > limit.edges_per_call then return false end
  edge.untell(down, one, up.state)
  list[#list + 1] = down
  return down
end

-- Whose upstreams ended are taken back, and who runs or waits again, the given one first; nil if
-- they are more than one call may follow. Nobody waits again whom another upstream keeps from
-- running, or in a flow whose cancel frees nobody.
function reopening.plan(p, x, f)
  local reopens = not f or not flow.frees_nobody(f)
  local list, ups, seen, i = {}, { x }, { [x.uuid] = true }, 1
  while ups[i] do
    local up, count = ups[i], told(ups[i])
    if #list + count > limit.edges_per_call then return nil end
    local edges = count > 0 and edge.outgoing(up, 0, count) or {}
    for j = 1, #edges do
      local down = untell(p, up, edges[j], list)
      if down == false then return nil end
      if down and reopens and never_began(down) and not seen[down.uuid]
        and edge.decide(down) ~= 'skip' then
        seen[down.uuid], ups[#ups + 1] = true, down
      end
    end
    i = i + 1
  end
  return list, ups
end

local ENDED = { 'ended_at', 'failure_reason', 'failure_category', 'cancel_reason', 'cancelled_by' }

-- What those who run again passed to a member that did not begin is passed anew when they end.
local function forget_inputs(w, x, again)
  if not x.inputs or x.attempt_count then return end
  local key, kept = keys.inputs(x.key), {}
  local list = redis.call('LRANGE', key, 0, -1)
  for i = 1, #list do
    if not again[string.match(list[i], '^[^:]*')] then kept[#kept + 1] = list[i] end
  end
  if #kept == #list then return end
  w[#w + 1] = { 'DEL', key }
  record.drop(x, { 'inputs' })
  if #kept > 0 then
    w[#w + 1] = { 'RPUSH', key, unpack(kept) }
    record.set(x, 'inputs', number.text(#kept))
  end
end

-- A member that was over before it began waits again.
local function reopen(w, x, f, now)
  record.drop(x, ENDED)
  edge.block(x, now)
  if f and flow.holds(f) then
    record.set(x, 'held', '1')
    runnable.place(x, now)
  end
  commit(w, x, 'reopened')
  if x.parent then children.reopened(w, x, now) end
end

-- Where a member belongs whose upstreams were taken back.
local function replace(w, x, now)
  if x.attempt_count then return commit(w, x) end
  record.drop(x, { 'kept' })
  if x.state == 'blocked' then return edge.reconsider(w, x, now, ending.finish) end
  local waits = runnable.WAITING[x.state] and runnable.state(x, now) == 'blocked'
  if waits then edge.block(x, now) end
  commit(w, x, waits and 'blocked')
end

-- Takes back what was planned; the caller reopens the first of `ups`, which runs again.
function reopening.apply(w, list, ups, f, now)
  local again, seen = {}, {}
  for i = 1, #ups do
    again[ups[i].uuid] = true
    record.drop(ups[i], { 'edges_resolved' })
    w[#w + 1] = { 'ZREM', w.p.due, edge.PREFIX .. ups[i].uuid }
    if i > 1 then reopen(w, ups[i], f, now) end
  end
  for i = 1, #list do
    local down = list[i]
    if not seen[down.uuid] then
      forget_inputs(w, down, again)
      replace(w, down, now)
    end
    seen[down.uuid] = true
  end
end

return reopening
