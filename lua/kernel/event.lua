-- Events: every transition appends one to the partition's bounded log, and publishes a wake-up
-- where somebody may be waiting.

local limit = require('kernel.limit')

local event = {}

local LENGTH = limit.event_log_length

-- One fixed set of fields for all events, which also lets the stream store them compactly.
function event.append(w, p, name, uuid, attempt, why)
  w[#w + 1] = { 'XADD', p.log, 'MAXLEN', '~', LENGTH, '*',
    'e', name, 'x', uuid, 'a', attempt or '', 'w', why or '' }
end

-- Work became claimable in a lane.
function event.ready(w, p, lane) w[#w + 1] = { 'SPUBLISH', p.ready_channel, lane } end

-- An execution ended.
function event.ended(w, p, uuid) w[#w + 1] = { 'SPUBLISH', p.ended_channel, uuid } end

-- A timer was set. Timers beyond the next sweep need no push: the sweep will see them.
function event.due(w, p, at, now)
  if at - now < limit.tick_sweep_ms then w[#w + 1] = { 'SPUBLISH', p.due_channel, at } end
end

return event
