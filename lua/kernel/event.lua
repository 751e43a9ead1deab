-- Events: every transition appends one to the partition's bounded log.

local limit = require('kernel.limit')
local number = require('kernel.number')

local event = {}

local SWEEP_MS = limit.tick_sweep_ms

-- Ends a transition: the execution is written when all is decided, and the log tells what happened
-- to it. One text per event, `name:uuid:attempts so far:why`: a value of its own for each part
-- would cost as much again.
function event.tell(w, x, name, why)
  x.event = name .. ':' .. x.uuid .. ':' .. (x.attempt_count or '') .. ':' .. (why or '')
  w[#w + 1] = x
end

-- The parts of an event's text: name, uuid, index of the attempt or the empty text, why.
function event.parse(text)
  local name, uuid, count, why = string.match(text, '^([^:]*):([^:]*):([^:]*):(.*)$')
  return name, uuid, count == '' and '' or number.text(number.stored(count, 1) - 1), why
end

-- Must the engine be told of a timer? Those beyond its next sweep it will see by itself.
function event.is_soon(at, now) return at - now < SWEEP_MS end

return event
