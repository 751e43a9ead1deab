-- Timers: what happens to one execution when its time has come. The tick runs this for everything
-- that is due; the single-execution functions run parts of it on demand.

local number = require('kernel.number')
local record = require('model.record')
local attempt = require('model.attempt')
local commit = require('model.commit')
local ending = require('model.ending')
local failure = require('model.failure')
local flow = require('model.flow')
local loss = require('model.loss')
local runnable = require('model.runnable')
local state = require('model.state')
local suspension = require('model.suspension')

local timer = {}

-- Has a time come? One that cannot be read has: nothing waits for ever.
local function passed(text, now)
  if not text then return false end
  return number.stored(text, 0) <= now
end

function timer.deadline_passed(x, now)
  return not state.ENDED[x.state] and passed(x.deadline_at, now)
end

function timer.timeout_passed(x, now) return x.state == 'running' and passed(x.timeout_at, now) end

function timer.expire(w, x, now)
  record.set(x, 'failure_reason', 'execution_deadline')
  ending.finish(w, x, now, 'expired', 'execution_deadline')
end

-- An attempt that ran out of time is a failed attempt: the retry policy decides what follows.
function timer.time_out(w, x, now)
  return failure.attempt_failed(w, x, now, 'timeout', 'attempt_timeout', 'timeout', 'expired')
end

function timer.promote(w, x, now)
  local stopped = flow.stopped(w.p, x)
  if stopped then return ending.end_member(w, x, now, stopped) end
  runnable.place(x, now)
  record.set(x, 'transition_at', now)
  commit(w, x, 'promoted')
end

local function withdraw_grant(w, x)
  record.drop(x, attempt.GRANT)
  commit(w, x, 'grant_expired')
end

-- Does the first thing that is due; gives its name, or nil if nothing is.
function timer.fire(w, x, now)
  if timer.deadline_passed(x, now) then
    timer.expire(w, x, now)
    return 'expired'
  end
  if timer.timeout_passed(x, now) then
    timer.time_out(w, x, now)
    return 'timed_out'
  end
  if x.state == 'running' and number.stored(x.lease_expires_at, 0) <= now then
    loss.lose(w, x, now, 'lapse')
    return 'lapsed'
  end
  if x.state == 'delayed' and number.stored(x.delay_until, 0) <= now then
    timer.promote(w, x, now)
    return 'promoted'
  end
  if suspension.timed_out(x, now) then
    suspension.time_out(w, x, now)
    return 'suspensions'
  end
  if passed(x.grant_expires_at, now) then
    withdraw_grant(w, x)
    return 'ungranted'
  end
  return nil
end

return timer
