-- Reopening: a member of a flow that is over runs again, so what its end had meant for others is
-- taken back. Who never started because of it waits again; who did start keeps what it has.

local keys = require('kernel.keys')
local limit = require('kernel.limit')
local number = require('kernel.number')
local children = require('model.children')
local commit = require('model.commit')
local edge = require('model.edge')
local record = require('model.record')
local runnable = require('model.runnable')

local reopening = {}

-- Did the end of an upstream end it before it began?
local function never_began(x)
  if x.attempt_count then return false end
  return x.state == 'skipped' or x.state == 'cancelled' and x.cancelled_by == 'flow_cascade'
end

local function told(x) return number.stored(x.edges_resolved, 0) end

-- Every edge that was told of an end that is taken back: { up, outcome, edge, downstream } each;
-- nil if they are more than one call may follow.
function reopening.plan(p, x)
  local list, ups, seen = {}, { x }, { [x.uuid] = true }
  local i = 1
  while ups[i] do
    local up = ups[i]
    local count = told(up)
    if #list + count > limit.edges_per_call then return nil end
    local edges = count > 0 and edge.outgoing(up, 0, count) or {}
    for j = 1, #edges do
      local down = edges[j] and edges[j].applied and record.read(p, edges[j].down)
      if down and number.stored(down.inputs, 0) > limit.edges_per_call then return nil end
      if down then
        list[#list + 1] = { outcome = up.state, edge = edges[j], down = down }
        if never_began(down) and not seen[down.uuid] then
          seen[down.uuid] = true
          ups[#ups + 1] = down
        end
      end
    end
    i = i + 1
  end
  return list, ups
end

local ENDED = { 'ended_at', 'failure_reason', 'failure_category', 'cancel_reason', 'cancelled_by',
  'edges_resolved' }

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

local WAITING = { waiting = true, delayed = true }

-- Takes back what was planned; `ups` begins with the member that runs again, which its caller
-- reopens.
function reopening.apply(w, list, ups, now)
  local again, seen = {}, {}
  for i = 1, #ups do again[ups[i].uuid] = true end
  for i = 1, #list do
    local down = list[i].down
    edge.untell(down, list[i].edge, list[i].outcome)
    if not seen[down.uuid] then forget_inputs(w, down, again) end
    seen[down.uuid] = true
  end
  for i = 2, #ups do
    record.drop(ups[i], ENDED)
    record.set(ups[i], 'state', 'blocked')
    record.set(ups[i], 'transition_at', now)
    commit(w, ups[i], 'reopened')
    if ups[i].parent then children.reopened(w, ups[i], now) end
  end
  for i = 1, #list do
    local down = list[i].down
    if WAITING[down.state] and not down.attempt_count then runnable.place(down, now) end
    commit(w, down, WAITING[down.was] and down.state == 'blocked' and 'blocked')
  end
  record.drop(ups[1], { 'edges_resolved' })
end

return reopening
