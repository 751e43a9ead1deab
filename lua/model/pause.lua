-- Pauses: a running attempt is put aside, its lease given back, and the same attempt goes on later.

local record = require('kernel.record')
local attempt = require('model.attempt')
local delay = require('model.delay')
local index = require('model.index')

local pause = {}

-- Puts the running attempt aside until `at`; it is claimable at once if that time has come.
function pause.until_time(w, p, x, at, now)
  local queue, due = index.places(x)
  attempt.pause(x, now)
  delay.until_time(x, at, 'delay', now)
  record.set(x, 'transition_at', now)
  record.save(x, w)
  index.settle(w, p, x, queue, due, now)
end

return pause
