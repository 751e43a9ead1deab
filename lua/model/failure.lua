-- Failures: an attempt did not succeed. Either another one is scheduled, or the execution ends.

local number = require('kernel.number')
local record = require('model.record')
local attempt = require('model.attempt')
local commit = require('model.commit')
local ending = require('model.ending')
local retry = require('model.retry')
local runnable = require('model.runnable')
local stream = require('model.stream')

local failure = {}

local function note(x, reason, category)
  record.set(x, 'failure_reason', reason)
  record.set(x, 'failure_category', category)
end

local function schedule(w, x, now, at)
  stream.close(w, x, now)
  record.drop(x, { 'timeout_at', 'lease_expires_at' })
  runnable.delay(x, at, 'retry_backoff')
  runnable.place(x, now)
  record.set(x, 'transition_at', now)
  record.set(x, 'next_attempt', 'retry')
  record.set(x, 'retry_count', number.one_more(x.retry_count))
  commit(w, x, 'retry_scheduled', x.failure_category)
end

-- Ends the running attempt as failed. Gives the time of the retry, or nil if there is none.
-- A retry that would start after the deadline is no retry.
function failure.attempt_failed(w, x, now, how, reason, category, outcome)
  local delay_ms = retry.delay_ms(x, category)
  local at = delay_ms and now + delay_ms
  local deadline_at = number.stored(x.deadline_at, nil)
  note(x, reason, category)
  attempt.close(x, how, now)
  if at and not (deadline_at and at >= deadline_at) then
    schedule(w, x, now, at)
    return at
  end
  ending.finish(w, x, now, outcome, how == 'timeout' and 'attempt_timeout' or 'failed')
  return nil
end

return failure
