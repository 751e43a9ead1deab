-- Replay: a finished execution runs again. The outcome is cleared, the counters of a run start
-- anew, and the next claim begins an attempt of type replay.

local arg = require('kernel.arg')
local blob = require('model.blob')
local define = require('kernel.define').define
local limit = require('kernel.limit')
local number = require('kernel.number')
local record = require('model.record')
local reply = require('kernel.reply')
local children = require('model.children')
local commit = require('model.commit')
local request = require('model.request')
local runnable = require('model.runnable')
local state = require('model.state')
local edge = require('model.edge')
local flow = require('model.flow')
local reopening = require('model.reopening')
local throttle = require('model.throttle')

-- What belongs to the run that is over. The failure stays until the next attempt begins, because
-- it is part of the last attempt's story.
local OVER = { 'ended_at', 'cancel_reason', 'cancelled_by', 'retry_count', 'reclaim_count',
  'progress_pct', 'progress_message', 'progress_at', 'deadline_at', 'deadline_given',
  'lease_expires_at',
  'timeout_at', 'timeout_left_ms', 'delay_until', 'delay_reason', 'waitpoint_id' }

local ENDS = { success = 'done', failed = 'final', expired = 'timeout', cancelled = 'cancel' }

-- A member that has to wait has as much time as its policy says from when it may run.
local function set_deadline(x, deadline_at, now)
  local given = deadline_at ~= 0 and deadline_at or nil
  local own = not deadline_at and number.stored(x.deadline_ms, nil)
  if given then record.set(x, 'deadline_at', given) end
  if own and runnable.WAITING[x.state] then edge.arm_deadline(x, now) end
end

-- Does a member that ran have to wait for an upstream that runs again? Where nobody is freed any
-- more it does not.
local function must_wait(x, f)
  return f and x.attempt_count and not flow.frees_nobody(f) and edge.decide(x) == 'wait'
end

local function reopen(w, x, a, now, deadline_at)
  if x.attempt_count and not x.attempt_end then
    record.set(x, 'attempt_end', ENDS[x.state] or 'cancel')
    record.set(x, 'attempt_ended_at', x.ended_at)
  elseif x.attempt_end == 'fail' and x.state == 'failed' then
    record.set(x, 'attempt_end', 'final')
  end
  blob.drop(x, w, 'result')
  record.drop(x, OVER)
  local f = x.flow_id and flow.read(w.p, x.flow_id)
  if f and flow.holds(f) then record.set(x, 'held', '1') end
  if must_wait(x, f) then record.set(x, 'waits_again', '1') end
  record.set(x, 'next_attempt', 'replay')
  if x.throttle then throttle.reopened(w, x, now) end
  runnable.place(x, now)
  record.set(x, 'transition_at', now)
  record.set(x, 'replay_count', number.one_more(x.replay_count))
  request.note(x, a)
  if a.reason ~= '' then record.set(x, 'replay_reason', a.reason) end
  if a.requested_by ~= '' then record.set(x, 'replay_requested_by', a.requested_by) end
  set_deadline(x, deadline_at, now)
  commit(w, x, 'replayed', a.requested_by)
  if x.parent then children.reopened(w, x, now) end
end

-- What its flow has to say: nil and a refusal, or what is taken back with the replay.
local function planned(p, x, downstream)
  local f = flow.read(p, x.flow_id)
  if f and (f.expired or flow.is_removed(f)) then
    return nil, reply.refuse('flow_already_terminal')
  end
  if f and flow.cancels(f, x) then return nil, reply.refuse('flow_cancelled') end
  if edge.decide(x) == 'skip' then
    local up = edge.obstacle(p, x)
    return nil, reply.refuse('deps_not_satisfied', up and p.tag .. up or '')
  end
  local list, ups, uuid = reopening.plan(p, x, f, downstream)
  if not list then return nil, reply.refuse(ups, uuid and p.tag .. uuid) end
  return { list = list, ups = ups, flow = f }
end

local function take_back(w, plan, a, now)
  if not plan then return end
  local run_again = function(x) reopen(w, x, a, now) end
  reopening.apply(w, plan.list, plan.ups, plan.flow, now, run_again)
  if plan.flow and plan.flow.failing then flow.forgive(w, plan.flow) end
end

define {
  name = 'ff_replay_execution',
  doc = 'Runs a finished execution again, up to the policy\'s maximum.',
  flags = {},
  args = {
    arg.execution('execution_id'),
    arg.text('reason', limit.reason_bytes_max),
    arg.text('requested_by', limit.creator_bytes_max),
    arg.optional(arg.moment('deadline_at')),
    arg.optional(arg.int('expected_replay_count', 0, limit.max_replays_max)),
    request.arg(),
    arg.optional(arg.int('downstream', 0, 1), 0),
  },
  gives = {
    OK = { 'public_state', 'replay_count' },
    DUPLICATE = { 'public_state', 'replay_count' },
    execution_not_found = {},
    execution_not_terminal = {},
    max_replays_exhausted = { 'execution_id' },
    flow_cancelled = {},
    flow_already_terminal = {},
    deps_not_satisfied = { 'upstream_execution_id' },
    graph_too_large = {},
  },
  run = function(p, a, now, w)
    local x = record.read(p, a.execution_id)
    if not x then return reply.refuse('execution_not_found') end
    local count = number.stored(x.replay_count, 0)
    -- A caller that names itself, or the count it saw, can repeat a call whose answer was lost.
    if request.seen(x, a) or a.expected_replay_count and count > a.expected_replay_count then
      return reply.duplicate(state.public(x), count)
    end
    if not state.ENDED[x.state] then return reply.refuse('execution_not_terminal') end
    if reopening.is_exhausted(x) then
      return reply.refuse('max_replays_exhausted', p.tag .. x.uuid)
    end
    local plan, refusal
    if x.flow_id then
      plan, refusal = planned(p, x, a.downstream == 1)
      if refusal then return refusal end
    end
    take_back(w, plan, a, now)
    reopen(w, x, a, now, a.deadline_at)
    if x.waits_again then reopening.forget_open_inputs(w, x) end
    return reply.ok(state.public(x), count + 1)
  end,
}

return true
