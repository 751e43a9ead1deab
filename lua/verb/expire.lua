-- Expire and promote: one execution's timer, on demand. Nothing fires before its time.

local arg = require('kernel.arg')
local define = require('kernel.define').define
local number = require('kernel.number')
local record = require('model.record')
local reply = require('kernel.reply')
local state = require('model.state')
local timer = require('model.timer')

local function expire_deadline(w, x, now)
  if not timer.deadline_passed(x, now) then return reply.already('not_due') end
  local before = state.phase(x)
  timer.expire(w, x, now)
  return reply.ok('expired', before)
end

local function expire_attempt(w, x, now)
  if x.state ~= 'running' then return reply.already('not_applicable') end
  if not timer.timeout_passed(x, now) then return reply.already('not_due') end
  local at = timer.time_out(w, x, now)
  return reply.ok(at and 'retry_scheduled' or 'expired', 'active')
end

define {
  name = 'ff_expire_execution',
  doc = 'Ends an attempt past its timeout, or an execution past its deadline.',
  flags = { 'allow-oom' },
  args = {
    arg.execution('execution_id'),
    arg.choice('expire_reason', { 'attempt_timeout', 'execution_deadline' }),
  },
  gives = { OK = { 'result', 'previous_phase' }, ALREADY_SATISFIED = { 'reason' } },
  run = function(p, a, now, w)
    local x = record.read(p, a.execution_id)
    if not x then return reply.already('execution_not_found') end
    if state.ENDED[x.state] then return reply.already('already_terminal') end
    if a.expire_reason == 'execution_deadline' then return expire_deadline(w, x, now) end
    return expire_attempt(w, x, now)
  end,
}

define {
  name = 'ff_promote_delayed',
  doc = 'Makes an execution whose delay is over claimable.',
  flags = { 'allow-oom' },
  args = { arg.execution('execution_id') },
  gives = { OK = { 'result' }, ALREADY_SATISFIED = { 'reason' } },
  run = function(p, a, now, w)
    local x = record.read(p, a.execution_id)
    if not x then return reply.already('execution_not_found') end
    if x.state ~= 'delayed' then return reply.already('not_delayed') end
    if number.stored(x.delay_until, 0) > now then return reply.already('not_yet_due') end
    timer.promote(w, x, now)
    return reply.ok('promoted')
  end,
}

return true
