-- Attempts: numbered runs of an execution. The latest one is part of the record; when a new one
-- begins, the one before moves, packed, to the list of past attempts.

local blob = require('model.blob')
local keys = require('kernel.keys')
local limit = require('kernel.limit')
local number = require('kernel.number')
local record = require('model.record')
local lease = require('model.lease')
local state = require('model.state')
local stream = require('model.stream')
local waitpoint = require('model.waitpoint')

local attempt = {}

local ENDS = {
  fail = 'ended_failure', timeout = 'ended_failure',
  lapse = 'interrupted_reclaimed', revoke = 'interrupted_reclaimed',
  done = 'ended_success', final = 'ended_failure', cancel = 'ended_cancelled',
}

local OUTCOMES = {
  success = 'ended_success', failed = 'ended_failure', expired = 'ended_failure',
  cancelled = 'ended_cancelled', skipped = 'ended_cancelled',
}

-- What became of the latest attempt.
function attempt.lifecycle(x)
  if x.attempt_end then return ENDS[x.attempt_end] end
  if state.ENDED[x.state] then return OUTCOMES[x.state] end
  return x.state == 'running' and 'started' or 'suspended'
end

function attempt.kind(x) return x.attempt_type or 'initial' end

-- When the execution's first attempt began.
function attempt.first_started_at(x) return x.started_at or x.attempt_started_at end

function attempt.ended_at(x) return x.attempt_ended_at or x.ended_at end

function attempt.index(x)
  -- Most attempts are the first.
  if x.attempt_count == '1' then return 0 end
  return number.stored(x.attempt_count, 0) - 1
end

-- One line: no id contains a colon, and the free texts come last, the first with its length.
function attempt.pack(x)
  local why = x.attempt_cause or ''
  return table.concat({
    number.text(attempt.index(x)), lease.attempt_id(x) or '', attempt.kind(x),
    attempt.lifecycle(x) or '', x.attempt_started_at or '', attempt.ended_at(x) or '',
    x.lease_epoch or '', x.worker_id or '', x.worker_instance_id or '', x.failure_category or '',
    number.text(#why), why .. (x.failure_reason or ''),
  }, ':')
end

-- How and when an attempt ended that was packed into this line; nil if it says nothing.
function attempt.end_of(line)
  return string.match(line, '^%d+:[^:]*:%l+:([%l_]+):%d*:(%d*):')
end

-- Remembers that the latest attempt is over although the execution is not.
function attempt.close(x, how, now)
  record.set(x, 'attempt_end', how)
  record.set(x, 'attempt_ended_at', now)
end

local LEFTOVERS = { 'attempt_id', 'attempt_type', 'attempt_end', 'attempt_ended_at',
  'attempt_cause', 'failure_reason', 'failure_category',
  'revoke_reason', 'replay_reason', 'replay_requested_by', 'timeout_at',
  'timeout_left_ms', 'renewed_at', 'resumed_at', 'progress_pct', 'progress_message',
  'progress_at', 'next_attempt', 'delay_until', 'delay_reason', 'pause_kind', 'waits_again' }

attempt.GRANT = { 'grant_id', 'grant_kind', 'grant_worker_id', 'grant_instance_id',
  'grant_expires_at' }

-- What waits for a claim that may never come.
local PENDING = { 'next_attempt', 'delay_until', 'delay_reason', 'suspend_reason',
  'suspend_until', 'grant_id', 'grant_kind', 'grant_worker_id', 'grant_instance_id',
  'grant_expires_at', 'held', 'waits_again', 'passes' }

attempt.PENDING = PENDING

local function next_type(x)
  if state.LOST[x.state] then return 'reclaim' end
  return x.next_attempt == 'retry' and 'retry' or x.next_attempt == 'replay' and 'replay'
    or 'initial'
end

local function cause(x)
  if x.state == 'lapsed' then return 'lease_expired' end
  if x.state == 'revoked' then return 'lease_revoked' end
  if x.next_attempt ~= 'replay' then return nil end
  return (x.replay_requested_by or '') .. ' ' .. (x.replay_reason or '')
end

local function archive(w, x)
  local list = keys.attempts(x.key)
  w[#w + 1] = { 'RPUSH', list, attempt.pack(x) }
  w[#w + 1] = { 'LTRIM', list, -limit.attempt_history_max, -1 }
end

local function arm_timeout(x, now, left_ms)
  if left_ms then record.set(x, 'timeout_at', now + number.stored(left_ms, 0)) end
end

-- Puts away what an earlier attempt left; gives the type of the one that follows.
local function follow(w, x)
  local kind, why = next_type(x), cause(x)
  if x.attempt_count then
    archive(w, x)
    stream.put_away(w, x)
    lease.remember(x, x.pause_kind or x.attempt_end)
    blob.drop(x, w, 'detail')
    record.set(x, 'started_at', attempt.first_started_at(x))
  end
  record.drop(x, LEFTOVERS)
  if kind ~= 'initial' then record.set(x, 'attempt_type', kind) end
  if why then record.set(x, 'attempt_cause', why) end
  if kind == 'reclaim' then
    record.set(x, 'reclaim_count', number.one_more(x.reclaim_count))
  end
  return kind
end

local acquire_new = lease.acquirer('attempt_count', 'attempt_started_at')
local acquire_again = lease.acquirer('resumed_at')

-- Begins a new attempt under a new lease.
function attempt.begin(w, x, a, lease_id, now)
  local kind = 'initial'
  -- A fresh execution has nothing to put away, and most executions are fresh.
  if x.attempt_count or x.next_attempt or x.delay_until then kind = follow(w, x) end
  if x.grant_id then record.drop(x, attempt.GRANT) end
  -- What the attempt before had opened, nobody will be suspended on.
  if x.pending_waitpoints then waitpoint.close_all(w, w.p, x, now, 'attempt_over') end
  acquire_new(x, a, lease_id, now, number.one_more(x.attempt_count), now)
  if a.attempt_id then record.set(x, 'attempt_id', a.attempt_id) end
  arm_timeout(x, now, x.attempt_timeout_ms)
  return kind
end

-- Continues a paused attempt under a new lease, with the time it had left.
function attempt.resume(x, a, lease_id, now)
  local left_ms = x.timeout_left_ms
  record.set(x, 'attempt_id', lease.attempt_id(x))
  lease.remember(x, x.pause_kind)
  record.drop(x, PENDING)
  record.drop(x, { 'pause_kind', 'timeout_left_ms', 'renewed_at', 'progress_pct',
    'progress_message', 'progress_at' })
  acquire_again(x, a, lease_id, now, now)
  arm_timeout(x, now, left_ms)
  return 'resumed'
end

-- Sets the running attempt aside: it keeps its remaining time and will be resumed.
function attempt.pause(x, now, how)
  local timeout_at = number.stored(x.timeout_at, nil)
  if timeout_at then record.set(x, 'timeout_left_ms', math.max(timeout_at - now, 1)) end
  record.drop(x, { 'timeout_at', 'lease_expires_at' })
  record.set(x, 'next_attempt', 'resume')
  record.set(x, 'pause_kind', how)
end

return attempt
