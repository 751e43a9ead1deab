-- Reopening: a member of a flow that is over runs again, so what its end had meant for others is
-- taken back. Who never started because of it waits again; who did start keeps what it has, unless
-- all behind it shall run again.

local keys = require('kernel.keys')
local limit = require('kernel.limit')
local number = require('kernel.number')
local commit = require('model.commit')
local edge = require('model.edge')
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

-- Every edge that was told of an end that is taken back: { outcome, edge, downstream } each, and
-- those that run again, `x` and, if `downstream` is asked for, all behind it that ran. Nil and a
-- code if they are more than one call may follow, or one of them may not run again, which follows.
function reopening.plan(p, x, downstream)
  local list, ups, seen = {}, { x }, { [x.uuid] = true }
  local i = 1
  while ups[i] do
    local up = ups[i]
    local count = told(up)
    if #list + count > limit.edges_per_call then return nil, 'graph_too_large' end
    local edges = count > 0 and edge.outgoing(up, 0, count) or {}
    for j = 1, #edges do
      local down = edges[j] and edges[j].applied and record.read(p, edges[j].down)
      if down and number.stored(down.inputs, 0) > limit.edges_per_call then
        return nil, 'graph_too_large'
      end
      if down then
        list[#list + 1] = { outcome = up.state, edge = edges[j], down = down }
        local again = downstream and ran(down)
        if (again or never_began(down)) and not seen[down.uuid] then
          if again and reopening.is_exhausted(down) then
            return nil, 'max_replays_exhausted', down.uuid
          end
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

-- What those who run again passed to a member that did not begin is passed anew when they end.
local function forget_inputs(w, x, again)
  if not x.inputs or runnable.has_begun(x) and not again[x.uuid] then return end
  keep_inputs(w, x, function(uuid) return not again[uuid] end)
end

-- What upstreams that are not over passed to a member that waits again is passed anew, too.
function reopening.forget_open_inputs(w, x)
  if not x.inputs then return end
  keep_inputs(w, x, function(uuid)
    local up = record.read(w.p, uuid)
    return up and state.ENDED[up.state]
  end)
end

-- What an upstream had ended waits for it again.
local function wait_again(w, x, now)
  record.drop(x, ENDED)
  if x.attempt_count then
    record.set(x, 'waits_again', '1')
    record.set(x, 'next_attempt', 'replay')
  end
  record.set(x, 'state', 'blocked')
  record.set(x, 'transition_at', now)
  commit(w, x, 'reopened')
end

local WAITING = { waiting = true, delayed = true }

-- Takes back what was planned; `ups` begins with the member that runs again, which its caller
-- reopens. `run_again` does so with the others that ran.
function reopening.apply(w, list, ups, now, run_again)
  local again, seen = {}, {}
  for i = 1, #ups do again[ups[i].uuid] = true end
  for i = 1, #list do
    local down = list[i].down
    edge.untell(down, list[i].edge, list[i].outcome)
    if not seen[down.uuid] then forget_inputs(w, down, again) end
    seen[down.uuid] = true
  end
  for i = 2, #ups do
    if ran(ups[i]) then
      record.drop(ups[i], { 'edges_resolved' })
      run_again(ups[i])
    else
      wait_again(w, ups[i], now)
    end
  end
  for i = 1, #list do
    local down = list[i].down
    if WAITING[down.state] and not runnable.has_begun(down) then runnable.place(down, now) end
    commit(w, down, WAITING[down.was] and down.state == 'blocked' and 'blocked')
  end
  record.drop(ups[1], { 'edges_resolved' })
end

return reopening
