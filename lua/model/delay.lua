-- Delays: an execution that must not run before a given time.

local record = require('kernel.record')

local delay = {}

-- Makes the execution claimable at `at`; at once if that time has come.
function delay.until_time(x, at, reason, now)
  if at <= now then
    record.set(x, 'state', 'waiting')
  else
    record.set(x, 'state', 'delayed')
    record.set(x, 'delay_until', at)
    record.set(x, 'delay_reason', reason)
  end
end

-- The delay is over.
function delay.promote(x, now)
  record.drop(x, { 'delay_until', 'delay_reason' })
  record.set(x, 'state', 'waiting')
  record.set(x, 'transition_at', now)
end

return delay
