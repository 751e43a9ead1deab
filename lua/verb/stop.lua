-- Stop: what the hard limit of a budget means to those who run. The budget decides, in its own
-- partition, and the engine brings it here: an attempt under another lease than the one it was
-- decided about is left alone.

local arg = require('kernel.arg')
local define = require('kernel.define').define
local limit = require('kernel.limit')
local number = require('kernel.number')
local prepare = require('kernel.define').prepare
local reply = require('kernel.reply')
local attempt = require('model.attempt')
local batch = require('model.batch')
local commit = require('model.commit')
local condition = require('model.condition')
local ending = require('model.ending')
local lease = require('model.lease')
local reached = require('model.reached')
local record = require('model.record')
local suspension = require('model.suspension')
local waitpoint = require('model.waitpoint')

local REASON = 'budget_exceeded'

local function epoch() return arg.int('lease_epoch', 1, limit.timestamp_ms_max) end

-- The execution that runs under this lease; or nil and the refusal.
local function running(p, a)
  local x = record.read(p, a.execution_id)
  if not x then return nil, reply.refuse('execution_not_found') end
  if x.state ~= 'running' or number.stored(x.lease_epoch, 0) ~= a.lease_epoch then
    return nil, reply.refuse('stale_lease')
  end
  return x
end

define {
  name = 'ff_stop_for_budget',
  doc = 'Ends an execution that runs under a budget whose hard limit is reached.',
  flags = { 'allow-oom' },
  args = {
    arg.execution('execution_id'),
    epoch(),
    arg.choice('action', { 'fail', 'cancel' }),
    arg.uuid('budget_id'),
  },
  gives = { OK = { 'public_state' }, execution_not_found = {}, stale_lease = {} },
  run = function(p, a, now, w)
    local x, refusal = running(p, a)
    if not x then return refusal end
    if a.action == 'cancel' then
      record.set(x, 'cancel_reason', REASON .. ': ' .. a.budget_id)
      record.set(x, 'cancelled_by', 'budget')
      ending.finish(w, x, now, 'cancelled', REASON)
      return reply.ok('cancelled')
    end
    record.set(x, 'failure_reason', REASON .. ': ' .. a.budget_id)
    record.set(x, 'failure_category', REASON)
    attempt.close(x, 'fail', now)
    ending.finish(w, x, now, 'failed', REASON)
    return reply.ok('failed')
  end,
}

local NOTE = prepare {
  arg.execution('execution_id'),
  epoch(),
  arg.uuid('budget_id'),
  arg.int('order', 1, limit.timestamp_ms_max),
  arg.int('reached', 0, 1),
}

define {
  name = 'ff_note_budgets_reached',
  doc = 'Tells those who run that the hard limit of a budget is reached, or is not any more.',
  flags = { 'allow-oom' },
  args = { batch.items(5) },
  gives = { OK = { 'noted' } },
  run = function(p, a, now, w)
    local noted = 0
    local refusal = batch.each(NOTE, a.items, p, now, w, function(n)
      local x = running(p, n)
      if not x or not reached.note(x, n.budget_id, n.order, n.reached == 1) then return end
      commit(w, x)
      noted = noted + 1
    end)
    return refusal or reply.ok(noted)
  end,
}

-- What approvers are asked, under a suspension that nobody but they and an operator end.
local function ask(w, p, x, a, now)
  local list = waitpoint.list(x)
  local one = waitpoint.create(w, p, x, list, a.waitpoint_id, 'budget:' .. a.budget_id,
    attempt.index(x), now)
  waitpoint.set(w, one, { 'suspension', a.suspension_id, 'reason', 'paused_by_budget',
    'requested_by', 'budget ' .. a.budget_id, 'worker', x.worker_instance_id or '',
    'suspended_under', lease.proof(x), 'since', number.text(now),
    'condition', a.resume_condition_json.text, 'delay_ms', '0', 'approval', a.approval,
    'budget', number.text(a.ask) .. ':' .. a.budget_id, 'state', 'active' })
  waitpoint.bind(w, x, one, list, a.suspension_id)
  suspension.begin(w, x, one, 'paused_by_budget', nil, now)
end

define {
  name = 'ff_pause_for_budget',
  doc = 'Suspends the execution that reached a hard limit until people have decided about it.',
  flags = { 'allow-oom' },
  args = {
    arg.execution('execution_id'),
    epoch(),
    arg.uuid('budget_id'),
    arg.int('ask', 1, limit.timestamp_ms_max),
    arg.uuid('suspension_id'),
    arg.uuid('waitpoint_id'),
    arg.custom('resume_condition_json', condition.read),
    arg.utf8('approval', limit.wait_details_bytes_max),
  },
  gives = { OK = {}, ALREADY_SATISFIED = {}, execution_not_found = {}, stale_lease = {} },
  run = function(p, a, now, w)
    if waitpoint.read(p, a.waitpoint_id) then return reply.already() end
    local x, refusal = running(p, a)
    if not x then return refusal end
    ask(w, p, x, a, now)
    return reply.ok()
  end,
}

return true
