-- Usage: executions pass a budget, report what they used of it, and give back what was promised.

local arg = require('kernel.arg')
local define = require('kernel.define').define
local keys = require('kernel.keys')
local limit = require('kernel.limit')
local prepare = require('kernel.define').prepare
local reply = require('kernel.reply')
local amount = require('model.amount')
local batch = require('model.batch')
local budget = require('model.budget')
local usage = require('model.usage')

local BUDGETS = { keys.BUDGETS }

-- The id of an execution, which lives in another partition than this one.
local function execution()
  return arg.custom('execution_id', function(text)
    local index, uuid = string.match(text, '^{fp:(%d+)}:(.*)$')
    if index and #index <= 5 and (index == '0' or string.sub(index, 1, 1) ~= '0')
      and arg.is_uuid(uuid) then
      return text
    end
    return nil, 'must be the id of an execution, as in {fp:7}:<uuid>'
  end)
end

local function epoch() return arg.int('lease_epoch', 1, limit.timestamp_ms_max) end

local function amounts_arg(least)
  return arg.rest(arg.text('amounts', limit.dimension_bytes_max), 2 * least,
    2 * limit.dimensions_max)
end

local function key_arg()
  return arg.optional(arg.printable('dedup_key', limit.usage_key_bytes_max), '')
end

-- Budget, usage and amounts of a call, or nil and a refusal. What was said before under the same
-- key is the fourth: an answer.
local function open(p, a)
  local b = budget.read(p, a.budget_id)
  if not b then return nil, reply.refuse('budget_not_found') end
  local list, wrong = amount.list(a.amounts)
  if not list then return nil, reply.refuse('invalid_input', wrong) end
  local u = usage.read(b, a.execution_id)
  local code = usage.refusal(u, a.lease_epoch)
  if code then return nil, reply.refuse(code) end
  local known = usage.known(u, a.dedup_key, list)
  if known == false then return nil, reply.refuse('idempotency_conflict', a.execution_id) end
  if not known and usage.is_full(u, a.dedup_key) then
    return nil, reply.refuse('invalid_input',
      'reports of an execution have at most ' .. limit.usage_keys_max .. ' keys')
  end
  return b, u, list, known
end

-- What a budget has no room for although it must count; nil if it has.
local function overflow(b, list)
  local name = usage.overflows(b, list)
  if name then
    return reply.refuse('invalid_input', 'usage of ' .. name .. ' would be too large')
  end
  if usage.has_room(b, list) then return nil end
  return reply.refuse('invalid_input', 'dimensions must be at most ' .. limit.dimensions_max)
end

local LIMIT = { 'dimension', 'usage', 'limit' }

define {
  name = 'ff_report_usage_and_check',
  doc = 'Counts what an execution used, whatever the limits say, and tells how the budget stands.',
  families = BUDGETS,
  flags = { 'allow-oom' },
  args = { arg.uuid('budget_id'), execution(), epoch(), key_arg(), amounts_arg(1) },
  gives = {
    OK = {},
    SOFT_BREACH = LIMIT,
    HARD_BREACH = { 'dimension', 'usage', 'limit', 'on_hard_limit', 'ask' },
    ALREADY_APPLIED = { 'outcome', 'dimension', 'usage', 'limit' },
    budget_not_found = {},
    no_active_lease = {},
    stale_lease = {},
    idempotency_conflict = { 'execution_id' },
  },
  run = function(p, a, now, w)
    local b, u, list, known = open(p, a)
    if not b then return u end
    if known then
      local _, outcome, dimension, used, most = unpack(known)
      return { 1, 'ALREADY_APPLIED', outcome, dimension, used, most }
    end
    local refusal = overflow(b, list)
    if refusal then return refusal end
    local crossed = usage.count(w, b, u, list, now)
    if crossed then budget.note_standing(w, p, b, now) end
    local ask = crossed and budget.crossed(w, p, b, u.id, a.lease_epoch, now)
    local word, name, used, most = usage.standing(b)
    usage.remember(w, u, a.dedup_key, list, word, name, used, most)
    if word == 'OK' then return reply.ok() end
    if word == 'SOFT_BREACH' then return { 1, word, name, used, most } end
    return { 1, word, name, used, most, b.stored.on_hard_limit, ask or '' }
  end,
}

define {
  name = 'ff_reserve_usage',
  doc = 'Promises an execution that it may use so much, if the hard limits have room for that.',
  families = BUDGETS,
  flags = { 'allow-oom' },
  args = { arg.uuid('budget_id'), execution(), epoch(), key_arg(), amounts_arg(1) },
  gives = {
    OK = {},
    ALREADY_APPLIED = {},
    budget_not_found = {},
    no_active_lease = {},
    stale_lease = {},
    idempotency_conflict = { 'execution_id' },
    budget_exceeded = LIMIT,
  },
  run = function(p, a, now, w)
    local b, u, list, known = open(p, a)
    if not b then return u end
    if known then return { 1, 'ALREADY_APPLIED' } end
    local name, taken, most = budget.lacks(b, list)
    if name then return reply.refuse('budget_exceeded', name, taken, most) end
    usage.promise(w, b, u, list)
    usage.remember(w, u, a.dedup_key, list, 'RESERVED', '', 0, 0)
    return reply.ok()
  end,
}

define {
  name = 'ff_check_budget_and_reserve',
  doc = 'Lets a lease pass a budget if its hard limits have room for what it reserves.',
  families = BUDGETS,
  flags = { 'allow-oom' },
  args = { arg.uuid('budget_id'), execution(), epoch(), amounts_arg(0) },
  gives = {
    ADMITTED = {},
    ALREADY_ADMITTED = {},
    BUDGET_EXCEEDED = { 'dimension', 'usage', 'limit', 'opens_at' },
    budget_not_found = {},
    stale_lease = {},
  },
  run = function(p, a, now, w)
    local b = budget.read(p, a.budget_id)
    if not b then return reply.refuse('budget_not_found') end
    local list, wrong = amount.list(a.amounts)
    if not list then return reply.refuse('invalid_input', wrong) end
    local u = usage.read(b, a.execution_id)
    local outcome, name, taken, most = usage.admit(w, b, u, a.lease_epoch, list, now)
    if outcome == 'stale_lease' then return reply.refuse(outcome) end
    if outcome ~= 'BUDGET_EXCEEDED' then
      if outcome == 'ADMITTED' then budget.passed(w, p, b, now) end
      return { 1, outcome }
    end
    budget.refused(w, b, list)
    return { 1, outcome, name, taken, most, b.stored.next_reset_at or '' }
  end,
}

local RELEASE = prepare { arg.uuid('budget_id'), execution(), epoch() }

define {
  name = 'ff_release_budget',
  doc = 'Leases are over: the rest of what budgets promised to them goes back.',
  families = BUDGETS,
  flags = { 'allow-oom' },
  args = { batch.items(3) },
  gives = { OK = { 'openings' }, ALREADY_SATISFIED = { 'openings' } },
  run = function(p, a, now, w)
    local released, gates = 0, {}
    local refusal = batch.each(RELEASE, a.items, p, now, w, function(r)
      local b = budget.read(p, r.budget_id)
      local u = usage.read(b or { key = p.budget .. r.budget_id }, r.execution_id)
      local is_new, freed
      if b then
        is_new, freed = usage.release(w, b, u, r.lease_epoch)
      else
        is_new = usage.note_end(w, u, r.lease_epoch)
      end
      if is_new then released = released + 1 end
      if freed then
        budget.change(w, b)
        batch.note(gates, budget.gate(b.id))
      end
    end)
    if refusal then return refusal end
    if released == 0 then return reply.already({}) end
    return reply.ok(batch.open_all(w, p, gates, now))
  end,
}

local FORGET = prepare { arg.uuid('budget_id'), execution() }

define {
  name = 'ff_forget_usage',
  doc = 'Executions are gone: what they used stays counted, and nobody is known for it.',
  families = BUDGETS,
  flags = { 'allow-oom' },
  args = { batch.items(2) },
  gives = { OK = { 'openings' } },
  run = function(p, a, now, w)
    local gates = {}
    local refusal = batch.each(FORGET, a.items, p, now, w, function(f)
      local b = budget.read(p, f.budget_id)
      if not b then
        budget.forget_user(w, p.budget .. f.budget_id, f.execution_id)
      elseif usage.forget(w, b, usage.read(b, f.execution_id)) then
        budget.change(w, b)
        batch.note(gates, budget.gate(b.id))
      end
    end)
    return refusal or reply.ok(batch.open_all(w, p, gates, now))
  end,
}

return true
