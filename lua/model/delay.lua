-- Delays: an execution that must not run before a given time. The time stays known until the next
-- claim, for those who ask again what they were told.

local record = require('kernel.record')

local delay = {}

-- Makes the execution claimable at `at`; at once if that time has come.
function delay.until_time(x, at, reason, now)
  record.set(x, 'state', at <= now and 'waiting' or 'delayed')
  record.set(x, 'delay_until', at)
  record.set(x, 'delay_reason', reason)
end

-- The delay is over.
function delay.promote(x, now)
  record.set(x, 'state', 'waiting')
  record.set(x, 'transition_at', now)
end

return delay
