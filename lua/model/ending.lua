-- Endings: the one place where an execution becomes terminal, whatever the cause.

local attempt = require('model.attempt')
local children = require('model.children')
local commit = require('model.commit')
local edge = require('model.edge')
local parking = require('model.parking')
local record = require('model.record')
local stream = require('model.stream')
local throttle = require('model.throttle')
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
  if x.park_reason then record.drop(x, parking.FIELDS) end
  -- Who reads along and has seen nothing yet is told by the push of the ended execution.
  if x.frames then stream.close(w, x, now) end
  put(x, outcome, now)
  if x.throttle then throttle.ended(w, x, now) end
  local why = outcome .. ':' .. cause .. ':' .. (x.namespace or '')
  commit(w, x, 'ended', x.flow_id and why .. ':' .. x.flow_id or why)
  if x.parent then children.ended(w, x, now) end
  if x.flow_id then edge.ended(w, x, now, ending.finish) end
end

-- Ends a member of a flow because the flow ends it: it was cancelled, its time is over, or the
-- failure of another member ends all.
function ending.end_member(w, x, now, f)
  if f.expired then
    record.set(x, 'failure_reason', 'flow_deadline')
    return ending.finish(w, x, now, 'expired', 'flow_deadline')
  end
  local cause = f.state == 'cancelled' and 'flow_cancelled' or 'flow_failed'
  record.set(x, 'cancel_reason', f.state and f.cancel_reason or cause)
  record.set(x, 'cancelled_by', 'flow_cascade')
  ending.finish(w, x, now, 'cancelled', cause)
end

return ending
