-- Undo: what a claim puts back if a gate refuses it. The worker was never told, so the attempt did
-- not begin: its number, its times and all that the claim has dropped become what they were. Only
-- the epoch stays, as epochs never come twice. What is put back is kept beside the record, and only
-- of executions with gates.

local blob = require('model.blob')
local field = require('model.field')
local keys = require('kernel.keys')
local limit = require('kernel.limit')
local number = require('kernel.number')
local pack = require('kernel.pack')
local record = require('model.record')

local undo = {}

-- What a claim sets or drops, but for the epoch and the grant, which is used up.
local FIELDS = { 'attempt_count', 'attempt_id', 'attempt_type', 'attempt_cause',
  'attempt_started_at', 'attempt_ended_at', 'attempt_end', 'started_at', 'lease_id', 'worker_id',
  'worker_instance_id', 'previous_lease', 'reclaim_count', 'next_attempt', 'pause_kind',
  'delay_until', 'delay_reason', 'waits_again', 'timeout_at', 'timeout_left_ms', 'renewed_at',
  'resumed_at', 'progress_pct', 'progress_message', 'progress_at', 'failure_reason',
  'failure_category', 'revoke_reason', 'replay_reason', 'replay_requested_by', 'frames',
  'kept_from', 'fair_rank' }

-- What the record holds before the claim, with the oldest past attempt if the claim pushes it out.
function undo.snapshot(x)
  local parts, full = { '' }, number.stored(x.attempt_count, 0) > limit.attempt_history_max
  if full then parts[1] = redis.call('LINDEX', keys.attempts(x.key), 0) or '' end
  for i = 1, #FIELDS do
    local name = FIELDS[i]
    if x[name] then parts[#parts + 1], parts[#parts + 2] = field[name], x[name] end
  end
  -- As a whole: a long one has a key of its own, which the claim removes.
  local detail = x.detail2 and blob.get(x, 'detail') or x.detail
  if detail then parts[#parts + 1], parts[#parts + 2] = field.detail, detail end
  return parts
end

-- Keeps a snapshot until the lease ends.
function undo.keep(w, x, parts)
  for i = 1, #parts do
    if type(parts[i]) == 'number' then parts[i] = number.text(parts[i]) end
  end
  w[#w + 1] = { 'SET', keys.undo(x.key), pack.join(parts) }
end

-- Takes the line of the attempt before the claimed one off the list of past attempts.
local function unarchive(w, x, pushed_out)
  local list = keys.attempts(x.key)
  if pushed_out == '' then
    w[#w + 1] = { 'LTRIM', list, 0, -2 }
    return
  end
  local lines = redis.call('LRANGE', list, 0, -2)
  w[#w + 1] = { 'DEL', list }
  w[#w + 1] = { 'RPUSH', list, pushed_out, unpack(lines) }
end

-- Makes the record what it was before its latest claim, but for the state. What cannot be read is
-- left as the claim made it.
function undo.restore(w, x)
  local text = redis.call('GET', keys.undo(x.key))
  local parts = text and pack.split(text)
  if not parts then return end
  local saved, claimed = {}, number.stored(x.attempt_count, 0)
  for i = 2, #parts, 2 do saved[parts[i]] = parts[i + 1] end
  blob.drop(x, w, 'detail')
  blob.put(x, w, 'detail', saved[field.detail] or '')
  for i = 1, #FIELDS do
    local name = FIELDS[i]
    local value = saved[field[name]]
    if value then record.set(x, name, value) else record.drop(x, { name }) end
  end
  record.drop(x, { 'lease_expires_at' })
  if claimed > number.stored(x.attempt_count, 0) and x.attempt_count then
    unarchive(w, x, parts[1])
  end
end

return undo
