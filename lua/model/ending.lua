-- Endings: the one place where an execution becomes terminal, whatever the cause.

local attempt = require('model.attempt')
local commit = require('model.commit')
local edge = require('model.edge')
local record = require('model.record')
local stream = require('model.stream')
local waitpoint = require('model.waitpoint')

local ending = {}

local put = record.setter { 'state', 'ended_at' }

-- Nothing that an execution waits on, or might have, outlives it.
local function close_waitpoints(w, x, now, outcome, cause)
  if x.state ~= 'suspended' and not x.pending_waitpoints then return end
  local reason = outcome == 'cancelled' and outcome or outcome .. ':' .. cause
  waitpoint.close_all(w, w.p, x, now, reason)
end

-- Ends the execution. `cause` is a stable word for the log: what made it end.
function ending.finish(w, x, now, outcome, cause)
  close_waitpoints(w, x, now, outcome, cause)
  if x.state ~= 'running' then record.drop(x, attempt.PENDING) end
  -- Who reads along and has seen nothing yet is told by the push of the ended execution.
  if x.frames then stream.close(w, x, now) end
  put(x, outcome, now)
  commit(w, x, 'ended', outcome .. ':' .. cause .. ':' .. (x.namespace or ''))
  if x.flow_id then edge.ended(w, x, now, ending.finish) end
end

-- Ends a member of a flow because the flow ends it.
function ending.cancel_member(w, x, now, f)
  local cancelled = f.state == 'cancelled'
  record.set(x, 'cancel_reason', cancelled and f.cancel_reason or 'flow_' .. (f.state or 'failed'))
  record.set(x, 'cancelled_by', 'flow_cascade')
  ending.finish(w, x, now, 'cancelled', cancelled and 'flow_cancelled' or 'flow_failed')
end

return ending
