-- Pause: the holder gives its lease back and the same attempt goes on later: after a delay, or when
-- the execution's children are done.

local arg = require('kernel.arg')
local define = require('kernel.define').define
local record = require('model.record')
local reply = require('kernel.reply')
local lease = require('model.lease')
local pause = require('model.pause')
local state = require('model.state')

-- The answer to this very pause if it was done before and its answer was lost; nil if it was not.
local function repeated(x, a, how)
  local ended_as, at = lease.ended_as(x, a)
  return ended_as == how and (at or x.transition_at)
end

define {
  name = 'ff_delay_execution',
  doc = 'Gives the lease back; the same attempt goes on at the given time.',
  flags = { 'allow-oom' },
  args = lease.args { arg.moment('delay_until') },
  gives = lease.gives { OK = { 'delay_until' }, DUPLICATE = { 'delay_until' } },
  run = function(p, a, now, w)
    local x = record.read(p, a.execution_id)
    if not x then return reply.refuse('execution_not_found') end
    local told = repeated(x, a, 'delay')
    if told then return reply.duplicate(told) end
    local refusal = lease.guard(x, a, now)
    if refusal then return refusal end
    pause.until_time(w, x, a.delay_until, now, 'delay', 'delayed', 'paused')
    return reply.ok(a.delay_until)
  end,
}

define {
  name = 'ff_move_to_waiting_children',
  doc = 'Gives the lease back until the execution\'s children are done; at once if none is open.',
  flags = { 'allow-oom' },
  args = lease.args {},
  gives = lease.gives { OK = { 'public_state' }, DUPLICATE = { 'public_state' } },
  run = function(p, a, now, w)
    local x = record.read(p, a.execution_id)
    if not x then return reply.refuse('execution_not_found') end
    if repeated(x, a, 'children') then return reply.duplicate(state.public(x)) end
    local refusal = lease.guard(x, a, now)
    if refusal then return refusal end
    pause.until_time(w, x, now, now, 'children', 'waiting_children', 'paused')
    return reply.ok(state.public(x))
  end,
}

return true
