-- Endings: the one place where an execution becomes terminal, whatever the cause.

local event = require('kernel.event')
local record = require('kernel.record')
local attempt = require('model.attempt')
local field = require('model.field')

local ending = {}

-- Ends the execution. `cause` is a stable word for the log: what made it end.
function ending.finish(w, x, now, outcome, cause)
  if x.state ~= 'running' then record.drop(x, attempt.PENDING) end
  x.state, x.ended_at = outcome, now
  record.put(x, { 'HSET', x.key, field.state, outcome, field.ended_at, now, nil, nil })
  event.tell(w, x, 'ended', outcome .. ':' .. cause .. ':' .. (x.namespace or ''))
end

return ending
