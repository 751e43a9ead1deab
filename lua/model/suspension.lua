-- Suspensions: a running attempt is put aside until a signal, an operator or a time ends its wait,
-- and the same attempt goes on. What is waited on is a waitpoint; nobody but this file and `ending`
-- closes one that an execution is suspended on.

local limit = require('kernel.limit')
local number = require('kernel.number')
local attempt = require('model.attempt')
local commit = require('model.commit')
local condition = require('model.condition')
local ending = require('model.ending')
local outbox = require('model.outbox')
local record = require('model.record')
local runnable = require('model.runnable')
local signal = require('model.signal')
local waitpoint = require('model.waitpoint')

local suspension = {}

suspension.REASONS = { 'waiting_for_signal', 'waiting_for_approval', 'waiting_for_callback',
  'waiting_for_tool_result', 'waiting_for_operator_review', 'paused_by_policy', 'paused_by_budget',
  'step_boundary', 'manual_pause' }

suspension.BEHAVIORS = { 'fail', 'cancel', 'expire', 'auto_resume',
  'auto_resume_with_timeout_signal', 'escalate' }

local OUTCOMES = { fail = 'failed', cancel = 'cancelled', expire = 'expired' }
local WAIT = { 'suspend_reason', 'suspend_until' }
-- Where an attempt is that was put aside and will go on.
local PUT_ASIDE = { suspended = true, delayed = true, waiting = true, parked = true }

-- Can a wait under these rules never end? A timeout ends it, or leaves it to an operator.
function suspension.is_endless(tree, timeout_ms)
  return tree.root.kind == 'never' and not condition.allows_operator(tree) and not timeout_ms
end

-- Suspends the running attempt on a waitpoint.
function suspension.begin(w, x, one, reason, timeout_at, now)
  attempt.pause(x, now, 'suspend')
  record.set(x, 'state', 'suspended')
  record.set(x, 'transition_at', now)
  record.set(x, 'suspend_reason', reason)
  if timeout_at then record.set(x, 'suspend_until', timeout_at) end
  record.set(x, 'waitpoint_id', one.id)
  local asked = one.requested_by ~= '' and ':' .. one.requested_by or ''
  commit(w, x, 'suspended', reason .. ':' .. one.id .. asked)
end

-- Ends the wait: the attempt goes on, at once or after a delay. `by` says what ended it: signal,
-- operator or timeout; `name` is that of the signal or of the operator. The waitpoint of a damaged
-- store may be gone.
function suspension.resume(w, x, one, now, by, name, delay_ms)
  local reason = by == 'timeout' and 'timed_out_auto_resume' or 'resumed'
  if one then
    waitpoint.close(w, w.p, x, one, now, reason, by, name)
  else
    record.drop(x, { 'waitpoint_id' })
  end
  record.drop(x, WAIT)
  if delay_ms > 0 then
    runnable.delay(x, math.min(now + delay_ms, limit.timestamp_ms_max), 'resume')
  end
  runnable.place(x, now)
  record.set(x, 'transition_at', now)
  commit(w, x, 'resumed', by .. ':' .. name)
end

-- Has the time come at which the wait ends by itself?
function suspension.timed_out(x, now)
  return x.state == 'suspended' and x.suspend_until
    and number.stored(x.suspend_until, 0) <= now or false
end

-- What the worker finds among its signals when a time ended the wait.
local function timeout_signal(one)
  return { signal_id = one.suspension or one.id, signal_name = 'timeout',
    signal_category = 'system', source_type = 'system', source_identity = 'suspension_timeout',
    correlation_id = '', payload_encoding = '', idempotency_key = '', payload = '' }
end

local function resume_by_timeout(w, x, one, now)
  local told = signal.store(w, one, timeout_signal(one), now)
  waitpoint.set(w, one, { 'satisfied', told.number })
  suspension.resume(w, x, one, now, 'timeout', 'auto_resume', 0)
end

local function escalate(w, x, one, now)
  waitpoint.set(w, one, { 'reason', 'waiting_for_operator_review', 'escalated_at',
    number.text(now) })
  waitpoint.drop(w, one, { 'timeout_at', 'behavior' })
  record.drop(x, { 'suspend_until' })
  record.set(x, 'suspend_reason', 'waiting_for_operator_review')
  record.set(x, 'mutation_at', now)
  commit(w, x, 'escalated', one.id)
end

local function finish(w, x, one, now, behavior)
  local reason = 'suspension_timeout:' .. behavior
  if one then
    waitpoint.close(w, w.p, x, one, now, 'timed_out_' .. behavior, 'timeout', behavior)
  end
  record.drop(x, WAIT)
  if behavior == 'cancel' then
    record.set(x, 'cancel_reason', reason)
    record.set(x, 'cancelled_by', 'suspension_timeout')
  else
    record.set(x, 'failure_reason', reason)
    record.set(x, 'failure_category', 'timeout')
  end
  ending.finish(w, x, now, OUTCOMES[behavior], 'suspension_timeout')
end

-- Does what the suspension said about its timeout; gives that. A waitpoint that is gone, or that a
-- damaged store says nothing readable about, fails: nothing waits for ever.
function suspension.time_out(w, x, now)
  local one = waitpoint.latest(w.p, x)
  local behavior = one and one.behavior
  if behavior == 'auto_resume_with_timeout_signal' then
    resume_by_timeout(w, x, one, now)
  elseif behavior == 'escalate' then
    escalate(w, x, one, now)
  else
    if not OUTCOMES[behavior] then behavior = 'fail' end
    finish(w, x, one, now, behavior)
  end
  return behavior
end

local function past_deadline(x, now)
  local deadline_at = number.stored(x.deadline_at, nil)
  return deadline_at and deadline_at <= now
end

-- Has a time ended the wait although nobody has carried that out yet? What escalates goes on. The
-- waitpoint may be gone.
local function ended_by_time(x, one, now)
  return suspension.timed_out(x, now) and not (one and one.behavior == 'escalate')
end

-- Why it is too late to end a wait; nil if it is not.
function suspension.too_late(x, one, now)
  if past_deadline(x, now) then return 'target_not_signalable' end
  return ended_by_time(x, one, now) and 'waitpoint_closed' or nil
end

-- May an operator end the wait? Once it was left to one, whatever it said before; and nobody else
-- can if its waitpoint is gone.
function suspension.allows_operator(x, one, now)
  if not one or one.escalated_at or suspension.timed_out(x, now) then return true end
  local tree = condition.read(one.condition or '')
  return not tree or condition.allows_operator(tree)
end

-- Will the attempt go on that opened a waitpoint? It runs, or was put aside.
local function goes_on(x, one, now)
  if number.text(attempt.index(x)) ~= one.attempt then return false end
  if x.state == 'running' then return number.stored(x.lease_expires_at, 0) > now end
  return x.next_attempt == 'resume' and PUT_ASIDE[x.state] or false
end

-- Why a waitpoint takes no signal now; nil if it does.
function suspension.refusal(x, one, now)
  if not waitpoint.is_open(one) then return 'waitpoint_closed' end
  if not x or past_deadline(x, now) then return 'target_not_signalable' end
  if one.state == 'pending' then
    if number.stored(one.expires_at, 0) <= now then return 'waitpoint_closed' end
    return not goes_on(x, one, now) and 'target_not_signalable' or nil
  end
  local over = x.state ~= 'suspended' or x.waitpoint_id ~= one.id or ended_by_time(x, one, now)
  return over and 'waitpoint_closed' or nil
end

-- What was decided about the limit of a budget: it is raised, once for this wait, or the execution
-- has failed. Gives whether it goes on.
local function budget_decided(w, x, one, told, now)
  if told.name ~= 'rejected' then
    outbox.owe(w, 'raise:' .. one.budget)
    return true
  end
  waitpoint.close(w, w.p, x, one, now, 'rejected', 'signal', told.name)
  record.drop(x, WAIT)
  record.set(x, 'failure_reason', 'budget_rejected: ' .. one.budget)
  record.set(x, 'failure_category', 'budget_exceeded')
  ending.finish(w, x, now, 'failed', 'budget_rejected')
  return false
end

-- Counts a signal for the wait; gives its effect.
function suspension.signalled(w, x, one, told, now)
  local tree = condition.read(one.condition or '')
  local s = tree and condition.open(tree, one.progress)
  if not s or not condition.count(s, told) then
    commit(w, x, 'signalled', 'no_op:' .. told.name)
    return 'no_op'
  end
  waitpoint.set(w, one, { 'progress', condition.progress(s), 'matched',
    number.text(number.stored(one.matched, 0) + 1) })
  local met = condition.met(s)
  if not met then
    commit(w, x, 'signalled', 'appended_to_waitpoint:' .. told.name)
    return 'appended_to_waitpoint'
  end
  waitpoint.set(w, one, { 'satisfied', table.concat(met, ',') })
  if one.budget and not budget_decided(w, x, one, told, now) then
    return 'resume_condition_satisfied'
  end
  suspension.resume(w, x, one, now, 'signal', told.name, number.stored(one.delay_ms, 0))
  return 'resume_condition_satisfied'
end

-- What ended the latest wait, for whoever goes on: nothing, or what, whether all signals are there,
-- and the signals; those that are large are left to a read of their own.
function suspension.resumption(one)
  if not one or (one.ended_by or '') == '' then return '', 0 end
  if number.stored(one.bytes, 0) > limit.resume_signals_bytes then return { one.ended_by, 0 }, 0 end
  local list, bytes = signal.read(one, 1, limit.waitpoint_bytes_max)
  return { one.ended_by, 1, unpack(list) }, bytes
end

return suspension
