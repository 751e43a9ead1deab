-- Pauses: a running attempt is put aside, its lease given back, and the same attempt goes on later.

local record = require('model.record')
local attempt = require('model.attempt')
local commit = require('model.commit')
local runnable = require('model.runnable')

local pause = {}

-- Puts the running attempt aside until `at`; it is claimable at once if that time has come. `how`
-- says what for; the log tells it by this name and reason.
function pause.until_time(w, x, at, now, how, name, why)
  attempt.pause(x, now, how)
  runnable.delay(x, at, 'delay')
  runnable.place(x, now)
  record.set(x, 'transition_at', now)
  commit(w, x, name, why)
end

return pause
