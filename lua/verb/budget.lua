-- Budgets: made, changed, begun anew, removed and looked at. What is used of them is in
-- verb/usage.lua.

local arg = require('kernel.arg')
local define = require('kernel.define').define
local keys = require('kernel.keys')
local limit = require('kernel.limit')
local number = require('kernel.number')
local pack = require('kernel.pack')
local reply = require('kernel.reply')
local budget = require('model.budget')
local fields = require('model.fields')
local page = require('model.page')
local usage = require('model.usage')

local BUDGETS = { keys.BUDGETS }

local function limits_arg(least)
  return arg.rest(arg.text('dimensions', limit.dimension_bytes_max), 3 * least,
    3 * limit.dimensions_max)
end

local function interval_arg()
  return arg.optional(arg.int('reset_interval_ms', 0, limit.delay_ms_max))
end

-- What a budget was made from, to tell its repetition from another one.
local function origin(a)
  return pack.join { a.scope_type, a.scope_id, a.on_hard_limit, a.name,
    number.text(a.reset_interval_ms or 0), unpack(a.dimensions) }
end

local function make(w, p, a, list, now)
  local b = fields.read(p.budget .. a.budget_id)
  b.id = a.budget_id
  fields.set(w, b, 'created_at', now)
  budget.begin(w, b, now)
  fields.set(w, b, 'scope_type', a.scope_type)
  fields.set(w, b, 'scope_id', a.scope_id)
  fields.set(w, b, 'on_hard_limit', a.on_hard_limit)
  fields.set(w, b, 'origin', origin(a))
  if a.name ~= '' then fields.set(w, b, 'name', a.name) end
  budget.limit_all(w, b, list)
  budget.set_interval(w, p, b, a.reset_interval_ms or 0, now)
  w[#w + 1] = { 'ZADD', p.budgets, 0, b.id }
  return b
end

define {
  name = 'ff_create_budget',
  doc = 'Makes a budget with limits in some dimensions: of each its name, hard and soft limit.',
  families = BUDGETS,
  flags = { 'allow-oom' },
  args = {
    arg.uuid('budget_id'),
    arg.text('scope_type', 64),
    arg.text('scope_id', limit.budget_scope_bytes_max),
    arg.choice('on_hard_limit', budget.ACTIONS),
    interval_arg(),
    arg.utf8('name', limit.budget_name_bytes_max),
    limits_arg(1),
  },
  gives = {
    OK = { 'budget_id' },
    ALREADY_SATISFIED = { 'budget_id' },
    invalid_budget_scope = {},
    budget_attach_conflict = {},
  },
  run = function(p, a, now, w)
    if not budget.SCOPES[a.scope_type] or a.scope_id == '' then
      return reply.refuse('invalid_budget_scope')
    end
    local list, wrong = budget.limits(a.dimensions)
    if not list then return reply.refuse('invalid_input', wrong) end
    local before = budget.read(p, a.budget_id)
    if before then
      if before.stored.origin ~= origin(a) then return reply.refuse('budget_attach_conflict') end
      return reply.already(a.budget_id)
    end
    -- What goes with the one before would take what the new one knows along.
    if budget.is_going(p, a.budget_id) then return reply.refuse('budget_attach_conflict') end
    make(w, p, a, list, now)
    return reply.ok(a.budget_id)
  end,
}

define {
  name = 'ff_update_budget',
  doc = 'Gives dimensions of a budget other limits, or the budget other rules.',
  families = BUDGETS,
  flags = { 'allow-oom' },
  args = {
    arg.uuid('budget_id'),
    arg.optional(arg.choice('on_hard_limit', budget.ACTIONS)),
    interval_arg(),
    limits_arg(0),
  },
  gives = { OK = {}, budget_not_found = {} },
  run = function(p, a, now, w)
    local b = budget.read(p, a.budget_id)
    if not b then return reply.refuse('budget_not_found') end
    local list, wrong = budget.limits(a.dimensions)
    if not list then return reply.refuse('invalid_input', wrong) end
    if a.on_hard_limit then fields.set(w, b, 'on_hard_limit', a.on_hard_limit) end
    if a.reset_interval_ms then budget.set_interval(w, p, b, a.reset_interval_ms, now) end
    budget.limit_all(w, b, list)
    if #budget.dimensions(b) > limit.dimensions_max then
      return reply.refuse('invalid_input', 'dimensions must be at most ' .. limit.dimensions_max)
    end
    if b.changed then
      fields.set(w, b, 'changed_at', now)
      budget.tell(w, b, 'changed', now, '')
      budget.freed(w, p, b, now)
    end
    return reply.ok()
  end,
}

define {
  name = 'ff_delete_budget',
  doc = 'Removes a budget: its limits do not hold any more, and who waits for it is let pass.',
  families = BUDGETS,
  flags = { 'allow-oom' },
  args = { arg.uuid('budget_id') },
  gives = { OK = { 'scope_type', 'scope_id' }, ALREADY_SATISFIED = {} },
  run = function(p, a, now, w)
    local b = budget.read(p, a.budget_id)
    if not b then return reply.already() end
    budget.remove(w, p, b, now)
    return reply.ok(b.stored.scope_type, b.stored.scope_id)
  end,
}

define {
  name = 'ff_reset_budget',
  doc = 'Begins a budget anew, if that is due or somebody says so.',
  families = BUDGETS,
  flags = { 'allow-oom' },
  args = {
    arg.uuid('budget_id'),
    arg.int('due_only', 0, 1),
    arg.optional(arg.uuid('request_id'), ''),
  },
  gives = {
    OK = { 'next_reset_at', 'reset_count' },
    ALREADY_SATISFIED = { 'next_reset_at', 'reset_count' },
    budget_not_found = {},
    not_due = { 'next_reset_at' },
  },
  run = function(p, a, now, w)
    local b = budget.read(p, a.budget_id)
    if not b then return reply.refuse('budget_not_found') end
    local due_at = budget.limit(b, 'next_reset_at')
    local function tell(word)
      return { 1, word, b.stored.next_reset_at or '', fields.number(b, 'reset_count') }
    end
    if a.request_id ~= '' and b.stored.reset_request == a.request_id then
      return tell('ALREADY_SATISFIED')
    end
    if a.due_only == 1 and (not due_at or due_at > now) then
      return reply.refuse('not_due', b.stored.next_reset_at or '')
    end
    if a.request_id ~= '' then fields.set(w, b, 'reset_request', a.request_id) end
    budget.reset(w, p, b, now)
    return tell('OK')
  end,
}

define {
  name = 'ff_raise_budget',
  doc = 'Raises the hard limits that are reached, once for each question that was approved.',
  families = BUDGETS,
  flags = { 'allow-oom' },
  args = { arg.uuid('budget_id'), arg.int('ask', 1, limit.timestamp_ms_max) },
  gives = { OK = {}, ALREADY_SATISFIED = {}, budget_not_found = {} },
  run = function(p, a, now, w)
    local b = budget.read(p, a.budget_id)
    if not b then return reply.refuse('budget_not_found') end
    if fields.number(b, 'raised') >= a.ask then return reply.already() end
    fields.set(w, b, 'raised', a.ask)
    budget.raise(w, p, b, now)
    return reply.ok()
  end,
}

local SETTINGS = { 'name', 'scope_type', 'scope_id', 'on_hard_limit', 'reset_interval_ms',
  'next_reset_at', 'last_reset_at', 'reset_count', 'breach_count', 'soft_breach_count',
  'last_breach_at', 'last_breach_dimension', 'created_at', 'changed_at' }

-- What is known of a budget, and of each dimension its name, limits and what was used and promised.
local function row(b)
  local settings, list, names = {}, {}, budget.dimensions(b)
  for i = 1, #SETTINGS do settings[i] = b.stored[SETTINGS[i]] end
  for i = 1, #names do
    local name = names[i]
    list[i] = { name, b.stored['hard:' .. name] or '', b.stored['soft:' .. name] or '',
      b.stored['used:' .. name] or '0', b.stored['reserved:' .. name] or '0' }
  end
  return { b.id, reply.row(SETTINGS, settings), list }
end

-- The latest of those who used it that run under it, among so many that are looked at.
local function running(b)
  local users, list = redis.call('ZRANGE', keys.users(b.key), 0, limit.holders_looked_at - 1,
    'REV'), {}
  for i = 1, #users do
    if redis.call('HGET', keys.usage(b.key, users[i]), 'admitted') then
      list[#list + 1] = users[i]
    end
    if #list == limit.explained_holders_max then return list end
  end
  return list
end

define {
  name = 'ff_describe_budget',
  doc = 'Reads a budget: its rules, its limits, how much was used, and what happened lately.',
  families = BUDGETS,
  flags = { 'no-writes' },
  args = { arg.uuid('budget_id') },
  gives = {
    OK = { 'budget', 'users', 'partitions_waiting', 'events', 'running' },
    budget_not_found = {},
  },
  run = function(p, a)
    local b = budget.read(p, a.budget_id)
    if not b then return reply.refuse('budget_not_found') end
    return reply.ok(row(b), redis.call('ZCARD', keys.users(b.key)), budget.waiting(p, b.id),
      redis.call('LRANGE', keys.happened(b.key), 0, -1), running(b))
  end,
}

define {
  name = 'ff_list_budgets',
  doc = 'Lists the budgets of a partition by their ids, from a cursor.',
  families = BUDGETS,
  flags = { 'no-writes' },
  args = page.args(),
  gives = { OK = { 'budgets', 'next_cursor' } },
  run = function(p, a)
    return page.rows(p, p.budgets, a, function(_, id)
      local b = budget.read(p, id)
      return b and row(b)
    end)
  end,
}

-- A page by places: who used it comes and goes at the end, and nobody needs every one of them.
define {
  name = 'ff_list_budget_usage',
  doc = 'Lists who has used a budget, latest first, with what each of them used and may still use.',
  families = BUDGETS,
  flags = { 'no-writes' },
  args = {
    arg.uuid('budget_id'),
    arg.optional(arg.int('offset', 0, limit.timestamp_ms_max), 0),
    arg.int('limit', 1, limit.list_limit_max),
  },
  gives = { OK = { 'usage' }, budget_not_found = {} },
  run = function(p, a)
    local b = budget.read(p, a.budget_id)
    if not b then return reply.refuse('budget_not_found') end
    local found = redis.call('ZRANGE', keys.users(b.key), a.offset, a.offset + a.limit - 1, 'REV',
      'WITHSCORES')
    local rows = {}
    for i = 1, #found, 2 do
      local u = usage.read(b, found[i])
      rows[#rows + 1] = { u.id, u.stored.admitted or '', number.text(tonumber(found[i + 1])),
        usage.rows(b, u) }
    end
    return reply.ok(rows)
  end,
}

return true
