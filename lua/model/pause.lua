-- Pauses: a running attempt is put aside, its lease given back, and the same attempt goes on later.

local event = require('kernel.event')
local record = require('kernel.record')
local attempt = require('model.attempt')
local delay = require('model.delay')

local pause = {}

-- Puts the running attempt aside until `at`; it is claimable at once if that time has come. `how`
-- says what for; the log tells it by this name and reason.
function pause.until_time(w, x, at, now, how, name, why)
  attempt.pause(x, now, how)
  delay.until_time(x, at, 'delay', now)
  record.set(x, 'transition_at', now)
  event.tell(w, x, name, why)
end

return pause
