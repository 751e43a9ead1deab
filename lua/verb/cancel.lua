-- Cancel: ends an execution that is not over yet. A worker must prove that it holds the lease;
-- only the sources listed here may do without.

local arg = require('kernel.arg')
local define = require('kernel.define').define
local limit = require('kernel.limit')
local record = require('model.record')
local reply = require('kernel.reply')
local ending = require('model.ending')
local lease = require('model.lease')
local purge = require('model.purge')
local request = require('model.request')
local state = require('model.state')

local UNFENCED = { operator_override = true, flow_cascade = true, system_timeout = true }

-- This very cancel was done before and its answer was lost.
local function repeated(x, a, unfenced)
  if request.seen(x, a) then return true end
  if x.state == 'cancelled' then return unfenced or lease.matches(x, a) end
  return not unfenced and lease.ended_as(x, a) == 'cancel'
end

define {
  name = 'ff_cancel_execution',
  doc = 'Ends an execution as cancelled.',
  flags = { 'allow-oom' },
  args = lease.args {
    arg.text('reason', limit.reason_bytes_max),
    arg.optional(arg.label('source', limit.category_bytes_max), 'unknown'),
    request.arg(),
  },
  gives = lease.gives {
    OK = { 'public_state', 'previous_phase' },
    ALREADY_SATISFIED = { 'reason' },
  },
  run = function(p, a, now, w)
    local x = record.read(p, a.execution_id)
    local unfenced = UNFENCED[a.source]
    if not x then
      return purge.ended_as(p, a, '^cancelled:', unfenced) and reply.already('already_cancelled')
        or reply.refuse('execution_not_found')
    end
    if repeated(x, a, unfenced) then return reply.already('already_cancelled') end
    if state.ENDED[x.state] then return lease.not_active(x) end
    local refusal = not unfenced and lease.guard(x, a, now)
    if refusal then return refusal end
    local before = state.phase(x)
    if a.reason ~= '' then record.set(x, 'cancel_reason', a.reason) end
    record.set(x, 'cancelled_by', a.source)
    request.note(x, a)
    ending.finish(w, x, now, 'cancelled', 'cancelled')
    return reply.ok('cancelled', before)
  end,
}

return true
