-- Delays: an execution that must not run before a given time.

local record = require('kernel.record')

local delay = {}

local DELAYED = record.group { 'state', 'delay_until', 'delay_reason' }

-- Makes the execution claimable at `at`; at once if that time has come.
function delay.until_time(x, at, reason, now)
  if at <= now then
    x.state = 'waiting'
  else
    x.state, x.delay_until, x.delay_reason = 'delayed', at, reason
  end
  record.touch(x, DELAYED)
end

-- The delay is over.
function delay.promote(x, now)
  record.drop(x, { 'delay_until', 'delay_reason' })
  record.set(x, 'state', 'waiting')
  record.set(x, 'transition_at', now)
end

return delay
