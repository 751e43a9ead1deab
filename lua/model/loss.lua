-- Losses: a lease is gone without the worker having said how the attempt went. The execution is
-- claimable again by itself, as a new attempt, up to the policy's maximum.

local limit = require('kernel.limit')
local number = require('kernel.number')
local record = require('model.record')
local reply = require('kernel.reply')
local attempt = require('model.attempt')
local commit = require('model.commit')
local ending = require('model.ending')
local runnable = require('model.runnable')
local stream = require('model.stream')

local loss = {}

-- Why an execution cannot be taken over: it never lost a lease, or lost too many.
function loss.refusal(x)
  local spent = x.state == 'failed' and x.failure_reason == 'max_reclaims_exceeded'
  return reply.refuse(spent and 'max_retries_exhausted' or 'execution_not_reclaimable')
end

local function exhausted(x)
  return number.stored(x.reclaim_count, 0) >= number.stored(x.reclaims_max, limit.reclaims_default)
end

local EVENTS = { lapse = 'lease_expired', revoke = 'lease_revoked' }

-- Takes the lease away. `how` is lapse or revoke. Gives true if the execution may be claimed again,
-- false if that was its last chance and it has failed.
function loss.lose(w, x, now, how)
  attempt.close(x, how, now)
  if exhausted(x) then
    record.set(x, 'failure_reason', 'max_reclaims_exceeded')
    record.set(x, 'failure_category', 'infra_crash')
    ending.finish(w, x, now, 'failed', 'max_reclaims_exceeded')
    return false
  end
  stream.close(w, x, now)
  record.drop(x, { 'timeout_at', 'lease_expires_at' })
  runnable.place(x, now)
  record.set(x, 'transition_at', now)
  commit(w, x, EVENTS[how], x.revoke_reason)
  return true
end

return loss
