-- Endings: the one place where an execution becomes terminal, whatever the cause.

local event = require('kernel.event')
local record = require('kernel.record')
local attempt = require('model.attempt')
local index = require('model.index')

local ending = {}

-- The fields that must have been read before an execution can end.
ending.FIELDS = { 'lane', 'namespace', 'attempt_count', 'retention_ms', 'deadline_at',
  'grant_expires_at' }

-- Ends the execution. `cause` is a stable word for the log: what made it end.
function ending.finish(w, p, x, now, outcome, cause)
  local was = index.sets(x)
  record.set(x, 'state', outcome)
  record.set(x, 'ended_at', now)
  record.drop(x, attempt.PENDING)
  record.save(x, w)
  index.settle(w, p, x, was, now)
  event.append(w, p, 'ended', x.uuid, x.attempt_count and attempt.index(x),
    outcome .. ':' .. cause .. ':' .. (x.namespace or ''))
  event.ended(w, p, x.uuid)
end

return ending
