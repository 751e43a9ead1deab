-- Fail: the holder gave up; another attempt is scheduled, or the execution ends. The next one may
-- come with the answer.

local arg = require('kernel.arg')
local blob = require('model.blob')
local define = require('kernel.define').define
local limit = require('kernel.limit')
local record = require('model.record')
local reply = require('kernel.reply')
local failure = require('model.failure')
local lease = require('model.lease')
local next_task = require('model.next_task')
local purge = require('model.purge')

-- This very failure was reported before and the answer was lost.
local function repeated(x, a)
  local ended_as, at = lease.ended_as(x, a)
  if ended_as == 'final' or ended_as == 'fail' and x.state == 'failed' then
    return reply.duplicate('terminal_failed', '')
  end
  return ended_as == 'fail' and reply.duplicate('retry_scheduled', at or x.transition_at)
end

-- Ends the attempt; gives the answer, and the execution if the attempt ended now.
local function fail(p, a, now, w)
  local x = record.read(p, a.execution_id)
  if not x then
    return purge.ended_as(p, a, '^failed:fail$') and reply.duplicate('terminal_failed', '')
      or reply.refuse('execution_not_found')
  end
  local answer = repeated(x, a) or lease.guard(x, a, now)
  if answer then return answer end
  blob.put(x, w, 'detail', a.failure_detail)
  if a.is_final == 1 then x.retry_rule = nil end
  local at = failure.attempt_failed(w, x, now, 'fail', a.failure_reason, a.failure_category,
    'failed')
  if at then return reply.ok('retry_scheduled', at), x end
  return reply.ok('terminal_failed', ''), x
end

-- What a failure tells, as arguments.
local function args()
  return {
    arg.text('failure_reason', limit.reason_bytes_max),
    arg.optional(arg.label('failure_category', limit.category_bytes_max), ''),
    arg.text('failure_detail', limit.failure_detail_bytes_max),
    arg.int('is_final', 0, 1),
  }
end

-- What it can answer.
local function gives()
  return { OK = { 'result', 'delay_until' }, DUPLICATE = { 'result', 'delay_until' } }
end

define {
  name = 'ff_fail_execution',
  doc = 'Ends the running attempt as failed; a retry follows if one is left and may help.',
  flags = { 'allow-oom' },
  args = lease.args(args()),
  gives = lease.gives(gives()),
  run = function(p, a, now, w) return (fail(p, a, now, w)) end,
}

define {
  name = 'ff_fail_and_claim_next',
  doc = 'Ends the running attempt as failed, and claims the next execution for the same worker.',
  flags = { 'allow-oom' },
  args = next_task.args(args()),
  gives = next_task.gives(gives()),
  run = function(p, a, now, w)
    return next_task.follow(w, p, a, now, function() return fail(p, a, now, w) end)
  end,
}

return true
