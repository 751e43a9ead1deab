-- Endings: the one place where an execution becomes terminal, whatever the cause.

local event = require('kernel.event')
local record = require('kernel.record')
local attempt = require('model.attempt')
local field = require('model.field')
local index = require('model.index')

local ending = {}

-- Ends the execution. `cause` is a stable word for the log: what made it end.
function ending.finish(w, p, x, now, outcome, cause)
  local queue, due = index.membership(x)
  if x.state ~= 'running' then record.drop(x, attempt.PENDING) end
  x.state, x.ended_at = outcome, now
  record.put(x, { 'HSET', x.key, field.state, outcome, field.ended_at, now, nil, nil })
  record.save(x, w)
  index.leave(w, p, x, queue, due)
  w[#w + 1] = { 'ZADD', p.ended[outcome], index.purge_at(x), x.uuid }
  event.append(w, p, 'ended', x.uuid, x.attempt_count and attempt.index(x),
    outcome .. ':' .. cause .. ':' .. (x.namespace or ''))
  event.ended(w, p, x.uuid)
end

return ending
