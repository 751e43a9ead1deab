-- Events: every transition appends one to the partition's bounded log, and publishes a wake-up
-- where somebody may be waiting.

local limit = require('kernel.limit')

local event = {}

local LENGTH = limit.event_log_length

-- One text per event, `name:uuid:attempt:why`: each value of an entry costs as much again.
function event.append(w, p, name, uuid, attempt, why)
  w[#w + 1] = { 'XADD', p.log, 'MAXLEN', '~', LENGTH, '*', 'e',
    name .. ':' .. uuid .. ':' .. (attempt or '') .. ':' .. (why or '') }
end

-- The parts of an event's text.
function event.parse(text) return string.match(text, '^([^:]*):([^:]*):([^:]*):(.*)$') end

-- Work became claimable in a lane.
function event.ready(w, p, lane) w[#w + 1] = { 'SPUBLISH', p.ready_channel, lane } end

-- An execution ended.
function event.ended(w, p, uuid) w[#w + 1] = { 'SPUBLISH', p.ended_channel, uuid } end

-- A timer was set. Timers beyond the next sweep need no push: the sweep will see them.
function event.due(w, p, at, now)
  if at - now < limit.tick_sweep_ms then w[#w + 1] = { 'SPUBLISH', p.due_channel, at } end
end

return event
