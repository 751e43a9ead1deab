-- Suspend: the holder gives its lease back and the same attempt goes on when the wait is over:
-- ended by signals, by an operator, or by a time.

local arg = require('kernel.arg')
local define = require('kernel.define').define
local limit = require('kernel.limit')
local number = require('kernel.number')
local reply = require('kernel.reply')
local attempt = require('model.attempt')
local commit = require('model.commit')
local condition = require('model.condition')
local flow = require('model.flow')
local lease = require('model.lease')
local record = require('model.record')
local request = require('model.request')
local signal = require('model.signal')
local state = require('model.state')
local suspension = require('model.suspension')
local token = require('model.token')
local waitpoint = require('model.waitpoint')

local ANSWER = { 'suspension_id', 'waitpoint_id', 'waitpoint_key', 'waitpoint_token' }
local SATISFIED = { 'suspension_id', 'waitpoint_id', 'waitpoint_key', 'waitpoint_token', 'resume' }

-- This very suspension was done before and its answer was lost: whatever became of it since, the
-- answer is the same.
local function repeated(p, a, list)
  local listed = waitpoint.find(list, 'suspension', a.suspension_id)
  local one = listed and waitpoint.read(p, listed.id)
  if not one or one.suspended_under ~= lease.proof(a) then return nil end
  local minted, code = token.mint(p, one)
  if code then return reply.refuse(code) end
  if not one.kept_lease then
    return reply.duplicate(a.suspension_id, one.id, one.key, minted)
  end
  return reply.already(a.suspension_id, one.id, one.key, minted, (suspension.resumption(one)))
end

-- The pending waitpoint that a suspension names; or nil and the refusal.
local function pending(p, x, a, now)
  local one = waitpoint.read(p, a.waitpoint_id)
  if not one then return nil, reply.refuse('waitpoint_not_found') end
  if one.execution ~= x.uuid or one.attempt ~= number.text(attempt.index(x)) then
    return nil, reply.refuse('invalid_waitpoint_for_execution')
  end
  if one.state ~= 'pending' then return nil, reply.refuse('waitpoint_not_pending') end
  if number.stored(one.expires_at, 0) <= now then
    return nil, reply.refuse('pending_waitpoint_expired')
  end
  return one
end

local function fresh(w, p, x, a, list, now)
  local key = a.waitpoint_key or 'wpk:' .. a.waitpoint_id
  local code = waitpoint.refusal(p, list, a.waitpoint_id, key)
  if code then return nil, reply.refuse(code) end
  return waitpoint.create(w, p, x, list, a.waitpoint_id, key, attempt.index(x), now)
end

-- What the suspension asks for, with what the policy says where it says nothing.
local function rules(x, a, now)
  local timeout_ms = a.timeout_ms or number.stored(x.suspend_timeout_ms, nil)
  local behavior = a.timeout_behavior or x.suspend_behavior or 'fail'
  if behavior == 'auto_resume' then behavior = 'auto_resume_with_timeout_signal' end
  local tree = a.resume_condition_json
  if suspension.is_endless(tree, timeout_ms) then
    return nil, reply.refuse('invalid_input', 'resume_condition_json can never be satisfied, and '
      .. 'neither an operator nor a timeout may end the wait')
  end
  local signals_max = number.stored(x.signals_max, limit.signals_default)
  if condition.least(tree) > signals_max then
    return nil, reply.refuse('invalid_input', 'resume_condition_json can never be satisfied: the '
      .. 'execution takes at most ' .. number.text(signals_max) .. ' signals')
  end
  return { timeout_at = timeout_ms and math.min(now + timeout_ms, limit.timestamp_ms_max),
    behavior = behavior }
end

local function describe_wait(w, x, one, a, asked, now)
  waitpoint.set(w, one, { 'suspension', a.suspension_id, 'reason', a.reason_code,
    'requested_by', a.requested_by, 'worker', x.worker_instance_id or '',
    'suspended_under', lease.proof(x), 'since', number.text(now),
    'condition', a.resume_condition_json.text, 'delay_ms', number.text(a.resume_delay_ms) })
  if a.details ~= '' then waitpoint.set(w, one, { 'details', a.details }) end
  if a.approval ~= '' then waitpoint.set(w, one, { 'approval', a.approval }) end
  if asked.timeout_at then
    waitpoint.set(w, one, { 'timeout_at', number.text(asked.timeout_at), 'behavior',
      asked.behavior })
  end
end

-- The signals that came before: if they are enough already, the holder just goes on.
local function satisfied_before(w, p, x, one, a, minted, now)
  local s, matched = signal.count_all(one, a.resume_condition_json)
  if matched == 0 then return nil end
  waitpoint.set(w, one, { 'progress', condition.progress(s), 'matched', number.text(matched) })
  local met = condition.met(s)
  if not met then return nil end
  waitpoint.set(w, one, { 'satisfied', table.concat(met, ','), 'kept_lease', '1' })
  waitpoint.close(w, p, x, one, now, 'resumed', 'signal')
  record.set(x, 'waitpoint_id', one.id)
  commit(w, x, 'satisfied', one.id)
  return reply.already(a.suspension_id, one.id, one.key, minted, (suspension.resumption(one)))
end

local function suspend(w, p, x, a, list, now)
  local asked, refusal = rules(x, a, now)
  if refusal then return refusal end
  local use_pending, one = a.use_pending_waitpoint == 1, nil
  if use_pending then
    one, refusal = pending(p, x, a, now)
  else
    one, refusal = fresh(w, p, x, a, list, now)
  end
  if refusal then return refusal end
  local minted, code = token.mint(p, one)
  if code then return reply.refuse(code) end
  describe_wait(w, x, one, a, asked, now)
  waitpoint.bind(w, x, one, list, a.suspension_id)
  local before = use_pending and satisfied_before(w, p, x, one, a, minted, now)
  if before then return before end
  waitpoint.settle(w, p, x, one)
  if use_pending then waitpoint.drop(w, one, { 'expires_at' }) end
  waitpoint.set(w, one, { 'state', 'active' })
  suspension.begin(w, x, one, a.reason_code, asked.timeout_at, now)
  return reply.ok(a.suspension_id, one.id, one.key, minted)
end

-- Parsed into what it spells; the text itself is what is stored.
local function condition_arg(name)
  return arg.custom(name, function(text)
    local tree, malformed = condition.read(text)
    return tree, malformed
  end)
end

define {
  name = 'ff_suspend_execution',
  doc = 'Gives the lease back until signals, an operator or a timeout end the wait.',
  flags = { 'allow-oom' },
  args = lease.args {
    arg.uuid('suspension_id'),
    arg.uuid('waitpoint_id'),
    arg.optional(arg.printable('waitpoint_key', limit.waitpoint_key_bytes_max)),
    arg.optional(arg.choice('reason_code', suspension.REASONS), 'waiting_for_signal'),
    arg.utf8('requested_by', limit.creator_bytes_max),
    arg.optional(arg.int('timeout_ms', 1, limit.delay_ms_max)),
    arg.optional(arg.choice('timeout_behavior', suspension.BEHAVIORS)),
    condition_arg('resume_condition_json'),
    arg.optional(arg.int('resume_delay_ms', 0, limit.delay_ms_max), 0),
    arg.utf8('details', limit.wait_details_bytes_max),
    arg.optional(arg.int('use_pending_waitpoint', 0, 1), 0),
    arg.utf8('approval', limit.wait_details_bytes_max),
  },
  gives = lease.gives {
    OK = ANSWER, DUPLICATE = ANSWER, ALREADY_SATISFIED = SATISFIED,
    waitpoint_not_found = {}, waitpoint_not_pending = {}, invalid_waitpoint_for_execution = {},
    pending_waitpoint_expired = {}, waitpoint_already_exists = {},
    hmac_secret_not_initialized = {}, invalid_secret = {},
  },
  run = function(p, a, now, w)
    local x = record.read(p, a.execution_id)
    if not x then return reply.refuse('execution_not_found') end
    local list = waitpoint.list(x)
    local answer = repeated(p, a, list) or lease.guard(x, a, now)
    return answer or suspend(w, p, x, a, list, now)
  end,
}

define {
  name = 'ff_resume_execution',
  doc = 'Ends the wait of a suspended execution without looking at its condition.',
  flags = { 'allow-oom' },
  args = {
    arg.execution('execution_id'),
    arg.utf8('requested_by', limit.creator_bytes_max),
    arg.optional(arg.int('resume_delay_ms', 0, limit.delay_ms_max), 0),
    request.arg(),
  },
  gives = {
    OK = { 'public_state' }, DUPLICATE = { 'public_state' }, execution_not_found = {},
    execution_not_suspended = {}, operator_override_not_allowed = {}, waitpoint_closed = {},
    target_not_signalable = {}, flow_cancelled = {},
  },
  run = function(p, a, now, w)
    local x = record.read(p, a.execution_id)
    if not x then return reply.refuse('execution_not_found') end
    if request.seen(x, a) then return reply.duplicate(state.public(x)) end
    if x.state ~= 'suspended' then return reply.refuse('execution_not_suspended') end
    if flow.stopped(p, x) then return reply.refuse('flow_cancelled') end
    local one = waitpoint.latest(p, x)
    local code = suspension.too_late(x, one, now)
    if code then return reply.refuse(code) end
    if not suspension.allows_operator(x, one, now) then
      return reply.refuse('operator_override_not_allowed')
    end
    request.note(x, a)
    suspension.resume(w, x, one, now, 'operator', a.requested_by, a.resume_delay_ms)
    return reply.ok(state.public(x))
  end,
}

define {
  name = 'ff_expire_suspension',
  doc = 'Does what a suspension said about its timeout, if that has come.',
  flags = { 'allow-oom' },
  args = { arg.execution('execution_id') },
  gives = { OK = { 'behavior', 'public_state' }, ALREADY_SATISFIED = { 'reason' } },
  run = function(p, a, now, w)
    local x = record.read(p, a.execution_id)
    if not x then return reply.already('execution_not_found') end
    if x.state ~= 'suspended' then return reply.already('not_suspended') end
    if not x.suspend_until then return reply.already('no_timeout') end
    if not suspension.timed_out(x, now) then return reply.already('not_yet_due') end
    local behavior = suspension.time_out(w, x, now)
    return reply.ok(behavior, state.public(x))
  end,
}

define {
  name = 'ff_read_resume_signals',
  doc = 'Reads the signals that ended the latest wait of an execution, for its holder.',
  flags = { 'no-writes' },
  args = lease.args {
    arg.optional(arg.int('from', 1, limit.waitpoint_signals_max + 1), 1),
    arg.int('bytes_max', 1, limit.resume_signals_bytes_max),
  },
  gives = lease.gives { OK = { 'ended_by', 'next_from', 'signals' } },
  run = function(p, a, now)
    local x = record.read(p, a.execution_id)
    if not x then return reply.refuse('execution_not_found') end
    local refusal = lease.guard(x, a, now)
    if refusal then return refusal end
    local one = waitpoint.latest(p, x)
    if not one then return reply.ok('', '', {}) end
    local list, _, next_from = signal.read(one, a.from, a.bytes_max)
    return reply.ok(one.ended_by or '', next_from or '', list)
  end,
}

return true
