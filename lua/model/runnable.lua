-- Runnable: the one place that decides where an execution goes that is neither running nor over,
-- whatever brought it there: creation, a pause, a retry, a resume, a replay, the end of a delay. A
-- time before which it must not run stays known until the next claim, for those who ask again what
-- they were told.

local number = require('kernel.number')
local record = require('model.record')

local runnable = {}

-- The state of a runnable execution: what holds it decides.
function runnable.state(x, now)
  if x.delay_until and number.stored(x.delay_until, 0) > now then return 'delayed' end
  return 'waiting'
end

-- It must not run before `at`.
function runnable.delay(x, at, reason)
  record.set(x, 'delay_until', at)
  record.set(x, 'delay_reason', reason)
end

-- Puts the execution where it belongs now.
function runnable.place(x, now) record.set(x, 'state', runnable.state(x, now)) end

return runnable
