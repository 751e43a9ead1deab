-- Approvals: what approvers are asked, and what they decided.

local arg = require('kernel.arg')
local define = require('kernel.define').define
local limit = require('kernel.limit')
local number = require('kernel.number')
local reply = require('kernel.reply')
local decision = require('model.decision')
local record = require('model.record')
local signal = require('model.signal')
local suspension = require('model.suspension')
local waitpoint = require('model.waitpoint')

local function decide(p, a, now, w)
  local one = decision.waitpoint(p, a.execution_id, a.waitpoint_id)
  if not one then return reply.refuse('waitpoint_not_found') end
  local name, decided_at = decision.made(one, a.approver)
  if name then return reply.duplicate(name, decided_at) end
  local x = record.read(p, a.execution_id)
  local code = suspension.refusal(x, one, now)
  if code then return reply.refuse(code) end
  if decision.is_full(one) or signal.is_full(x, one, 0) then
    return reply.refuse('signal_limit_exceeded')
  end
  record.set(x, 'signal_count', number.one_more(x.signal_count))
  return reply.ok(number.text(now), decision.take(w, x, one, a, now))
end

define {
  name = 'ff_record_decision',
  doc = 'Takes the decision of an approver whom the caller has verified; the first one stands.',
  flags = { 'allow-oom' },
  args = {
    arg.execution('execution_id'),
    arg.uuid('waitpoint_id'),
    arg.uuid('signal_id'),
    arg.printable('approver', limit.approver_bytes_max),
    arg.printable('signal_name', limit.signal_name_bytes_max),
  },
  gives = {
    OK = { 'decided_at', 'effect' }, DUPLICATE = { 'signal_name', 'decided_at' },
    waitpoint_not_found = {}, waitpoint_closed = {}, target_not_signalable = {},
    signal_limit_exceeded = {},
  },
  run = decide,
}

define {
  name = 'ff_read_approval',
  doc = 'Reads what approvers are asked on one waitpoint, and what they decided.',
  flags = { 'no-writes' },
  args = { arg.execution('execution_id'), arg.uuid('waitpoint_id') },
  gives = { OK = { 'approval' }, waitpoint_not_found = {} },
  run = function(p, a, now)
    local one = decision.waitpoint(p, a.execution_id, a.waitpoint_id)
    if not one then return reply.refuse('waitpoint_not_found') end
    return reply.ok(decision.row(record.read(p, a.execution_id), one, now))
  end,
}

define {
  name = 'ff_list_approvals',
  doc = 'Lists the approvals that an execution asked for, oldest first; the latest are kept.',
  flags = { 'no-writes' },
  args = { arg.execution('execution_id') },
  gives = { OK = { 'approvals' }, execution_not_found = {} },
  run = function(p, a, now)
    local x = record.read(p, a.execution_id)
    if not x then return reply.refuse('execution_not_found') end
    local rows, list = {}, waitpoint.list(x)
    for i = 1, #list do
      local one = decision.waitpoint(p, a.execution_id, list[i].id)
      if one then rows[#rows + 1] = decision.row(x, one, now) end
    end
    return reply.ok(rows)
  end,
}

return true
