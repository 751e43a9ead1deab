-- Gates, as seen from an execution's partition: a claim that a gate refuses is undone and parked,
-- and an opening gate lets the best of those who wait there be claimed.

local arg = require('kernel.arg')
local define = require('kernel.define').define
local limit = require('kernel.limit')
local record = require('model.record')
local reply = require('kernel.reply')
local writes = require('kernel.writes')
local attempt = require('model.attempt')
local commit = require('model.commit')
local flow = require('model.flow')
local gate = require('model.gate')
local lease = require('model.lease')
local parking = require('model.parking')
local runnable = require('model.runnable')
local state = require('model.state')
local undo = require('model.undo')

-- Is the caller the claim that a gate refused, or somebody without a lease?
local function is_fenced(a) return a.lease_epoch .. a.lease_id .. a.attempt_id ~= '' end

-- Why an execution cannot be blocked; nil if it can.
local function refusal(x, a, now)
  if is_fenced(a) then return lease.guard(x, a, now) end
  if state.ENDED[x.state] then return lease.not_active(x) end
  if x.state ~= 'waiting' or x.grant_expires_at then
    return reply.refuse('execution_not_eligible')
  end
  return nil
end

-- This very claim was undone before.
local function blocked_before(x, a)
  return is_fenced(a) and x.state == 'parked' and x.lease_epoch == a.lease_epoch
end

-- Whom an operator holds waits for nothing else: it comes back to its gates when it is let go.
local function park(w, p, x, a, now)
  local name = gate.waits_at(x, a.blocking_reason)
  if name and not x.park_reason then
    record.set(x, 'park_reason', a.blocking_reason)
    if a.blocking_detail ~= '' then record.set(x, 'park_note', a.blocking_detail) end
    gate.close(w, p, name, a.opens_at, x)
  elseif not x.park_reason then
    parking.forbid(x, a.blocking_reason, '', a.blocking_detail, now)
  end
  record.drop(x, { 'passes' })
  record.set(x, 'state', 'parked')
  record.set(x, 'transition_at', now)
  commit(w, x, 'blocked', a.blocking_reason)
end

define {
  name = 'ff_block_execution_for_admission',
  doc = 'Parks an execution that may not run yet; the holder of a lease undoes its claim by it.',
  flags = { 'allow-oom' },
  args = lease.args {
    arg.text('blocking_reason', 64),
    arg.text('blocking_detail', limit.reason_bytes_max),
    arg.optional(arg.int('opens_at', 0, limit.timestamp_ms_max)),
    arg.optional(arg.uuid('budget_id')),
  },
  gives = {
    OK = { 'public_state' },
    ALREADY_SATISFIED = { 'public_state' },
    invalid_blocking_reason = {},
    execution_not_eligible = {},
    execution_not_found = {},
    execution_not_active = { 'terminal_outcome', 'lease_epoch', 'lifecycle_phase', 'attempt_id' },
    partial_fence_triple = {},
    lease_revoked = {},
    lease_expired = {},
    stale_lease = {},
  },
  run = function(p, a, now, w)
    local x = record.read(p, a.execution_id)
    if not x then return reply.refuse('execution_not_found') end
    if a.budget_id and gate.has_budget(x, a.budget_id) then
      record.set(x, 'budget_awaited', a.budget_id)
    end
    if not state.PARKED[a.blocking_reason]
      or gate.is_reason(a.blocking_reason) and not gate.waits_at(x, a.blocking_reason) then
      return reply.refuse('invalid_blocking_reason')
    end
    if blocked_before(x, a) then return reply.already(state.public(x)) end
    local refused = refusal(x, a, now)
    if refused then return refused end
    if is_fenced(a) then
      x.never_ran = true
      undo.restore(w, x)
    end
    park(w, p, x, a, now)
    return reply.ok(state.public(x))
  end,
}

-- Lets a parked execution be claimed, whatever gates are closed.
local function unpark(w, x, now)
  local reason = x.park_reason
  parking.allow(x)
  if x.quota_id or x.budgets then record.set(x, 'passes', '1') end
  record.drop(x, attempt.GRANT)
  runnable.place(x, now)
  record.set(x, 'transition_at', now)
  commit(w, x, 'unblocked', reason)
end

define {
  name = 'ff_unblock_execution',
  doc = 'Lets an execution that was blocked be claimed again.',
  flags = { 'allow-oom' },
  args = { arg.execution('execution_id'), arg.text('expected_reason', 64) },
  gives = {
    OK = { 'public_state' },
    execution_not_found = {},
    execution_not_eligible = {},
    flow_cancelled = {},
  },
  run = function(p, a, now, w)
    local x = record.read(p, a.execution_id)
    if not x then return reply.refuse('execution_not_found') end
    if x.state ~= 'parked' or a.expected_reason ~= '' and x.park_reason ~= a.expected_reason then
      return reply.refuse('execution_not_eligible')
    end
    if flow.stopped(p, x) then return reply.refuse('flow_cancelled') end
    unpark(w, x, now)
    return reply.ok(state.public(x))
  end,
}

-- An entry whose execution does not wait here: somebody wrote around the library.
local function let_pass(w, p, name, uuid, now)
  local x = record.read(p, uuid)
  if x and gate.is_at(x, name) then
    unpark(w, x, now)
    return 1
  end
  w[#w + 1] = { 'ZREM', p.gate .. name, uuid }
  return 0
end

define {
  name = 'ff_open_gate',
  doc = 'Lets the best of those who wait at a closed gate be claimed; opens it if that is all.',
  flags = { 'allow-oom' },
  args = {
    arg.text('gate', limit.gate_bytes_max),
    arg.int('count', 1, limit.gate_open_max),
  },
  gives = { OK = { 'opened', 'left', 'best_score' } },
  run = function(p, a, now, w)
    local key, opened = p.gate .. a.gate, 0
    local list = redis.call('ZRANGE', key, 0, a.count - 1)
    for i = 1, #list do opened = opened + let_pass(w, p, a.gate, list[i], now) end
    writes.flush(w)
    local head = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
    if not head[1] then gate.reopen(w, p, a.gate) end
    return reply.ok(opened, redis.call('ZCARD', key),
      head[1] and string.format('%.0f', head[2]) or '')
  end,
}

return true
