-- Reopening: a member of a flow that is over runs again, so what its end had meant for others is
-- taken back. Who never started because of it waits again; who did start keeps what it has, unless
-- all behind it shall run again.

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
local state = require('model.state')

local reopening = {}

-- Did the end of an upstream end it before it began, or before it began again?
local function never_began(x)
  if x.state == 'skipped' then return true end
  return not x.attempt_count and x.state == 'cancelled' and x.cancelled_by == 'flow_cascade'
end

-- Did it begin, and is it over?
local function ran(x) return x.attempt_count and state.ENDED[x.state] and x.state ~= 'skipped' end

-- May it not be replayed any more?
function reopening.is_exhausted(x)
  return number.stored(x.replay_count, 0) >= number.stored(x.replays_max, limit.replays_default)
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

-- Does it wait or run again because an upstream does? Nobody does whom another one keeps from it.
local function follows(x, downstream)
  return (downstream and ran(x) or never_began(x)) and edge.decide(x) ~= 'skip'
end

-- Whose upstreams' ends are taken back, and who runs or waits again, the given one first. Those who
-- ran only do if `downstream` is asked for, and nobody in a flow whose cancel frees nobody. Nil and
-- a code if they are more than one call may follow, or one of them, which comes third, may not.
function reopening.plan(p, x, f, downstream)
  local reopens = not f or not flow.frees_nobody(f)
  local list, ups, seen, i, inputs = {}, { x }, { [x.uuid] = true }, 1, 0
  while ups[i] do
    local up, count = ups[i], told(ups[i])
    if #list + count > limit.edges_per_call then return nil, 'graph_too_large' end
    local edges = count > 0 and edge.outgoing(up, 0, count) or {}
    for j = 1, #edges do
      local down = untell(p, up, edges[j], list)
      if down == false then return nil, 'graph_too_large' end
      if down and reopens and not seen[down.uuid] and follows(down, downstream) then
        if ran(down) and reopening.is_exhausted(down) then
          return nil, 'max_replays_exhausted', down.uuid
        end
        inputs = inputs + (ran(down) and number.stored(down.inputs, 0) or 0)
        seen[down.uuid], ups[#ups + 1] = true, down
      end
    end
    i = i + 1
  end
  if inputs > limit.edges_per_call then return nil, 'graph_too_large' end
  return list, ups
end

local ENDED = { 'ended_at', 'failure_reason', 'failure_category', 'cancel_reason', 'cancelled_by' }

-- Keeps those inputs of a member whose upstreams pass a test.
local function keep_inputs(w, x, is_kept)
  local key, kept = keys.inputs(x.key), {}
  local list = redis.call('LRANGE', key, 0, -1)
  for i = 1, #list do
    if is_kept(string.match(list[i], '^[^:]*')) then kept[#kept + 1] = list[i] end
  end
  if #kept == #list then return end
  w[#w + 1] = { 'DEL', key }
  record.drop(x, { 'inputs' })
  if #kept > 0 then
    w[#w + 1] = { 'RPUSH', key, unpack(kept) }
    record.set(x, 'inputs', number.text(#kept))
  end
end

-- Did an upstream end, and stays so?
local function is_over(w, uuid)
  local up = record.read(w.p, uuid)
  return up and state.ENDED[up.state]
end

-- What upstreams that are not over passed to a member that waits again is passed anew.
function reopening.forget_open_inputs(w, x)
  if not x.inputs then return end
  keep_inputs(w, x, function(uuid) return is_over(w, uuid) end)
end

-- The same for what those passed who run again.
local function forget_inputs(w, x, again)
  if not x.inputs then return end
  if again[x.uuid] and x.attempt_count then
    keep_inputs(w, x, function(uuid) return not again[uuid] and is_over(w, uuid) end)
  elseif not runnable.has_begun(x) then
    keep_inputs(w, x, function(uuid) return not again[uuid] end)
  end
end

-- A member that was over before it began, or before it began again, waits again.
local function reopen(w, x, f, now)
  record.drop(x, ENDED)
  if x.attempt_count then
    record.set(x, 'waits_again', '1')
    record.set(x, 'next_attempt', 'replay')
  end
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
  if runnable.has_begun(x) then return commit(w, x) end
  record.drop(x, { 'kept' })
  if x.state == 'blocked' then return edge.reconsider(w, x, now, ending.finish) end
  local waits = runnable.WAITING[x.state] and runnable.state(x, now) == 'blocked'
  if waits then edge.block(x, now) end
  commit(w, x, waits and 'blocked')
end

-- Takes back what was planned; the caller reopens the first of `ups`, which runs again, and
-- `run_again` does so with the others that ran.
function reopening.apply(w, list, ups, f, now, run_again)
  local again, seen = {}, {}
  for i = 1, #ups do
    local up = ups[i]
    again[up.uuid] = true
    record.drop(up, { 'edges_resolved' })
    w[#w + 1] = { 'ZREM', w.p.due, edge.PREFIX .. up.uuid }
    if i > 1 and ran(up) then
      run_again(up)
    elseif i > 1 then
      reopen(w, up, f, now)
    end
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
