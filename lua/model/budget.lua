-- Budgets: how much may be used, over all executions that a budget applies to. A budget has
-- dimensions, each with a hard limit, a soft one, or both; at a hard limit admission stops. It may
-- begin anew from time to time, by the store's clock.
--
-- Its record has its settings, and of each dimension `hard:<name>` and `soft:<name>`, what was used
-- since it last began, `used:<name>`, as much of that as nobody is known for any more,
-- `other:<name>`, and what is promised to those who run, `reserved:<name>`. What each execution has
-- of it is a record of its own (model/usage.lua).

local keys = require('kernel.keys')
local limit = require('kernel.limit')
local number = require('kernel.number')
local writes = require('kernel.writes')
local amount = require('model.amount')
local due = require('model.due')
local fields = require('model.fields')
local outbox = require('model.outbox')
local waiting = require('model.waiting')

local budget = {}

-- What a hard limit means to those who run: they go on until they stop by themselves; they fail or
-- are cancelled after a while; or the one that reached it asks people for more.
budget.ACTIONS = { 'block', 'fail', 'cancel', 'ask' }

budget.SCOPES = { namespace = true, lane = true, kind = true, flow = true, execution = true }

-- A budget by its id; nil if there is none.
function budget.read(p, id)
  local b = fields.read(p.budget .. id)
  if not b.stored.created_at then return nil end
  b.id = id
  return b
end

-- A limit; nil if there is none.
function budget.limit(b, name) return number.stored(b.stored[name], nil) end

-- The names of its dimensions, in their order: those with limits, and those that were used.
function budget.dimensions(b)
  local names, seen = {}, {}
  for field in pairs(b.stored) do
    local name = string.match(field, '^%l+:(.*)$')
    if name and not seen[name] then
      seen[name] = true
      names[#names + 1] = name
    end
  end
  table.sort(names)
  return names
end

-- The first dimension of which as much was used as a kind of limit says, with usage and limit; nil
-- if there is none. At the limit means reached.
function budget.reached(b, kind)
  local names = budget.dimensions(b)
  for i = 1, #names do
    local most = budget.limit(b, kind .. ':' .. names[i])
    local used = most and fields.number(b, 'used:' .. names[i])
    if most and used >= most then return names[i], used, most end
  end
  return nil
end

-- What is used or promised of a dimension.
function budget.taken(b, name)
  return fields.number(b, 'used:' .. name) + fields.number(b, 'reserved:' .. name)
end

-- The first dimension that has no room for what somebody wants of it, with what is taken and the
-- limit; nil if there is room. Who wants nothing needs a limit that is not reached.
function budget.lacks(b, wanted)
  local by_name, names = {}, budget.dimensions(b)
  for i = 1, #wanted do by_name[wanted[i].name] = wanted[i].value end
  for i = 1, #names do
    local most, more = budget.limit(b, 'hard:' .. names[i]), by_name[names[i]] or 0
    local taken = most and budget.taken(b, names[i])
    if most and (taken + more > most or taken >= most) then return names[i], taken, most end
  end
  return nil
end

-- Notes what happened, for those who look; the oldest go.
function budget.tell(w, b, name, now, detail)
  local key = keys.happened(b.key)
  w[#w + 1] = { 'RPUSH', key, number.text(now) .. ':' .. name .. ':' .. detail }
  w[#w + 1] = { 'LTRIM', key, -limit.budget_events_max, -1 }
end

-- The gate that executions wait at while a budget has no room for them.
function budget.gate(id) return 'b:' .. id end

-- Something changed that may leave room for somebody who was refused.
function budget.change(w, b) fields.add(w, b, 'changes', 1) end

-- What stands in `due` for those who run under a budget and are to hear how its hard limits stand;
-- who are to be stopped, as a limit was reached; and for what is left of a budget that was removed.
local TELL, STOP, REMOVE = 'n:', 'k:', 'd:'

-- Has those who run told if a hard limit is reached now and was not, or the other way round.
function budget.note_standing(w, p, b, now)
  local is_reached = budget.reached(b, 'hard') and '1' or nil
  if is_reached == b.stored.is_reached then return end
  fields.set(w, b, 'is_reached', is_reached)
  fields.set(w, b, 'standing', math.max(now, fields.number(b, 'standing') + 1))
  fields.set(w, b, 'told', nil)
  w[#w + 1] = { 'ZADD', p.due, now, TELL .. b.id }
  writes.push(w, p.due_channel, number.text(now))
end

-- There may be room for somebody who waits. What was collected is written first, as this looks at
-- what is stored; nothing is refused behind it.
function budget.freed(w, p, b, now)
  budget.change(w, b)
  budget.note_standing(w, p, b, now)
  writes.flush(w)
  waiting.attend(w, p, budget.gate(b.id), now, outbox.owe)
end

-- Somebody passed, for whom room may have been kept.
function budget.passed(w, p, b, now) waiting.passed(w, p, budget.gate(b.id), now) end

-- There was no room for somebody who wanted so much: what is opened next is measured by it.
function budget.refused(w, b, wanted)
  fields.set(w, b, 'wanted', amount.text(wanted))
  fields.set(w, b, 'refused_at', fields.number(b, 'changes'))
end

-- For how many who want so much there is room.
local function room_for(b, wanted)
  local least = limit.gate_open_max
  for i = 1, #wanted do
    local most = budget.limit(b, 'hard:' .. wanted[i].name)
    if most and wanted[i].value > 0 then
      least = math.min(least,
        math.floor((most - budget.taken(b, wanted[i].name)) / wanted[i].value))
    end
  end
  return least
end

-- What model/waiting.lua asks. Without a budget there is no limit any more. Where there is no room
-- for who was refused last, somebody else may still find some: one is let try whenever something
-- has changed.
function waiting.free.b(_, p, gate)
  local b = budget.read(p, string.sub(gate, 3))
  if not b then return limit.gate_open_max end
  local wanted = amount.of_text(b.stored.wanted or '')
  if not budget.lacks(b, wanted) then return room_for(b, wanted) end
  local is_new = fields.number(b, 'changes') > fields.number(b, 'refused_at')
  return is_new and not budget.lacks(b, {}) and 1 or 0
end

-- How many partitions have somebody who waits.
function budget.waiting(p, id) return redis.call('ZCARD', p.waiting .. budget.gate(id)) end

-- What stands in `due` for a budget that begins anew.
local RESET = 'b:'

local function arm(w, p, b, at, now)
  fields.set(w, b, 'next_reset_at', at)
  w[#w + 1] = { 'ZADD', p.due, at, RESET .. b.id }
  if at - now < limit.tick_sweep_ms then writes.push(w, p.due_channel, number.text(at)) end
end

-- Gives a budget the time after which it begins anew, again and again; 0 if it never does.
function budget.set_interval(w, p, b, interval_ms, now)
  if interval_ms == fields.number(b, 'reset_interval_ms') then return end
  if interval_ms == 0 then
    fields.set(w, b, 'reset_interval_ms', nil)
    fields.set(w, b, 'next_reset_at', nil)
    w[#w + 1] = { 'ZREM', p.due, RESET .. b.id }
    return
  end
  fields.set(w, b, 'reset_interval_ms', interval_ms)
  arm(w, p, b, now + interval_ms, now)
end

-- The first time behind now at which it is due again, counted from when it was: it does not drift.
local function next_time(at, interval_ms, now)
  if at > now then return at end
  return at + (math.floor((now - at) / interval_ms) + 1) * interval_ms
end

-- A period begins: what was counted in another one does not count any more. Periods are times, so
-- that none comes twice, also under an id that was used before.
function budget.begin(w, b, now)
  fields.set(w, b, 'period', math.max(now, fields.number(b, 'period') + 1))
end

-- A budget begins anew. What is promised to those who run stays promised.
function budget.reset(w, p, b, now)
  local names = budget.dimensions(b)
  for i = 1, #names do
    if b.stored['used:' .. names[i]] then fields.set(w, b, 'used:' .. names[i], '0') end
    fields.set(w, b, 'other:' .. names[i], nil)
  end
  budget.begin(w, b, now)
  fields.add(w, b, 'reset_count', 1)
  fields.set(w, b, 'last_reset_at', now)
  fields.set(w, b, 'last_breach_at', nil)
  fields.set(w, b, 'last_breach_dimension', nil)
  budget.tell(w, b, 'reset', now, '')
  local interval_ms = fields.number(b, 'reset_interval_ms')
  if interval_ms > 0 then
    arm(w, p, b, next_time(fields.number(b, 'next_reset_at'), interval_ms, now), now)
  end
  budget.freed(w, p, b, now)
end

due.on[RESET] = function(w, p, member, now)
  local b = budget.read(p, string.sub(member, 3))
  local at = b and budget.limit(b, 'next_reset_at')
  if not at then
    w[#w + 1] = { 'ZREM', p.due, member }
  elseif at > now then
    w[#w + 1] = { 'ZADD', p.due, at, member }
  else
    budget.reset(w, p, b, now)
    return 'gates'
  end
  return 'corrected'
end

-- A hard limit was reached by this lease: what follows is what the budget says. Gives the number of
-- the question that it asks, if it does.
function budget.crossed(w, p, b, execution_id, epoch, now)
  local action = b.stored.on_hard_limit
  if action == 'ask' then
    fields.add(w, b, 'asks', 1)
    outbox.owe(w, 'ask:' .. b.stored.asks .. ':' .. number.text(epoch) .. ':' .. b.id .. ':'
      .. execution_id)
    return b.stored.asks
  end
  if action ~= 'block' then
    w[#w + 1] = { 'ZADD', p.due, now + limit.budget_grace_ms, STOP .. b.id }
    writes.push(w, p.due_channel, number.text(now + limit.budget_grace_ms))
  end
  return nil
end

-- Raises every hard limit that is reached by what was set, as often as it takes to leave room.
function budget.raise(w, p, b, now)
  local names = budget.dimensions(b)
  for i = 1, #names do
    local field, used = 'hard:' .. names[i], fields.number(b, 'used:' .. names[i])
    local most = budget.limit(b, field)
    if most and used >= most then
      local step = math.max(fields.number(b, 'base:' .. names[i]), 1)
      fields.set(w, b, field, most + (math.floor((used - most) / step) + 1) * step)
      budget.tell(w, b, 'raised', now, names[i] .. ':' .. number.text(used) .. ':'
        .. b.stored[field])
    end
  end
  budget.freed(w, p, b, now)
end

-- What is known of an execution under a budget goes.
function budget.forget_user(w, key, execution_id)
  local usage = keys.usage(key, execution_id)
  w[#w + 1] = { 'DEL', usage, keys.reports(usage) }
  w[#w + 1] = { 'ZREM', keys.users(key), execution_id }
end

-- Is what a removed budget knows of executions still going?
function budget.is_going(p, id) return redis.call('ZSCORE', p.due, REMOVE .. id) and true end

-- Removes a budget. What it knows of executions goes bit by bit.
function budget.remove(w, p, b, now)
  w[#w + 1] = { 'DEL', b.key, keys.happened(b.key) }
  w[#w + 1] = { 'ZREM', p.budgets, b.id }
  w[#w + 1] = { 'ZREM', p.due, RESET .. b.id, STOP .. b.id, TELL .. b.id }
  w[#w + 1] = { 'ZADD', p.due, now, REMOVE .. b.id }
  writes.push(w, p.due_channel, number.text(now))
  writes.flush(w)
  waiting.attend(w, p, budget.gate(b.id), now, outbox.owe)
end

-- Tells those among these who run how the hard limits of a budget stand.
local function tell_standing(w, id, key, users, order, is_reached)
  for i = 1, #users do
    local epoch = redis.call('HGET', keys.usage(key, users[i]), 'admitted')
    if epoch then
      outbox.owe(w, 'reached:' .. (is_reached and '1' or '0') .. ':' .. number.text(order) .. ':'
        .. epoch .. ':' .. id .. ':' .. users[i])
    end
  end
end

-- Of a removed budget only the end of leases is known, until their execution is gone: a question
-- that comes after it would hold what it is given for ever, if the id is used again.
local function demote(w, key, execution_id)
  local usage = keys.usage(key, execution_id)
  local known = redis.call('HMGET', usage, 'admitted', 'released')
  local last = math.max(number.stored(known[1], 0), number.stored(known[2], 0))
  budget.forget_user(w, key, execution_id)
  w[#w + 1] = { 'HSET', usage, 'released', number.text(last) }
end

due.on[REMOVE] = function(w, p, member, now)
  local id = string.sub(member, 3)
  local key = p.budget .. id
  local users = redis.call('ZRANGE', keys.users(key), 0, limit.users_step - 1)
  tell_standing(w, id, key, users, now + 1, false)
  for i = 1, #users do demote(w, key, users[i]) end
  if #users < limit.users_step then w[#w + 1] = { 'ZREM', p.due, member } end
  return 'gates'
end

-- The next of those who used a budget, in the order in which they did last, from where a walk has
-- come to, and where it goes on; nil at its end. Who reports meanwhile comes once more, at the end:
-- a walk by places would leave out the one behind.
local function next_users(b, from)
  local since, skip = string.match(from or '', '^(%d+):(%d+)$')
  since, skip = since or '0', tonumber(skip or '0')
  local found = redis.call('ZRANGE', keys.users(b.key), since, '+inf', 'BYSCORE', 'LIMIT', skip,
    limit.users_step, 'WITHSCORES')
  local users, same = {}, 0
  for i = 1, #found, 2 do
    users[#users + 1] = found[i]
    same = found[i + 1] == found[#found] and same + 1 or 0
  end
  if #users < limit.users_step then return users, nil end
  if found[#found] == since then same = same + skip end
  return users, found[#found] .. ':' .. number.text(same)
end

-- One step of a walk, whose place is kept in a field of the budget.
local function walk(w, b, field, member, visit)
  local users, on = next_users(b, b.stored[field])
  visit(users)
  if not on then w[#w + 1] = { 'ZREM', w.p.due, member } end
  fields.set(w, b, field, on)
end

due.on[TELL] = function(w, p, member)
  local b = budget.read(p, string.sub(member, 3))
  if not b then
    w[#w + 1] = { 'ZREM', p.due, member }
    return 'corrected'
  end
  walk(w, b, 'told', member, function(users)
    tell_standing(w, b.id, b.key, users, fields.number(b, 'standing'), b.stored.is_reached)
  end)
  return 'gates'
end

-- Owes the end of those among these who run, if a hard limit is still reached.
local function stop(w, b, users)
  for i = 1, #users do
    local epoch = redis.call('HGET', keys.usage(b.key, users[i]), 'admitted')
    if epoch then
      outbox.owe(w, 'stop:' .. b.stored.on_hard_limit .. ':' .. epoch .. ':' .. b.id .. ':'
        .. users[i])
    end
  end
end

due.on[STOP] = function(w, p, member)
  local b = budget.read(p, string.sub(member, 3))
  local acts = b and (b.stored.on_hard_limit == 'fail' or b.stored.on_hard_limit == 'cancel')
  if acts and budget.reached(b, 'hard') then
    walk(w, b, 'stopped', member, function(users) stop(w, b, users) end)
  else
    w[#w + 1] = { 'ZREM', p.due, member }
    if b then fields.set(w, b, 'stopped', nil) end
  end
  return 'gates'
end

-- Gives a dimension its limits; the empty text is none.
local function limit_dimension(w, b, one)
  fields.set(w, b, 'hard:' .. one.name, one.hard or nil)
  fields.set(w, b, 'soft:' .. one.name, one.soft or nil)
  -- By so much an approval raises it.
  fields.set(w, b, 'base:' .. one.name, one.hard or nil)
end

function budget.limit_all(w, b, list)
  for i = 1, #list do limit_dimension(w, b, list[i]) end
end

-- One limit of a dimension: a number, false if it is not given, or nil and what is wrong.
local function read_limit(text, name)
  if text == '' then return false end
  local value = amount.read(text, 1)
  if not value then return nil, amount.rule('the limit of ' .. name, 1) end
  return value
end

local function read_dimension(words, at, seen)
  local name, wrong = words[at], nil
  wrong = amount.wrong_name(name, seen)
  if wrong then return nil, wrong end
  local one = { name = name }
  one.hard, wrong = read_limit(words[at + 1], name)
  if wrong then return nil, wrong end
  one.soft, wrong = read_limit(words[at + 2], name)
  if wrong then return nil, wrong end
  if one.hard and one.soft and one.soft > one.hard then
    return nil, 'the soft limit of ' .. name .. ' must be at most the hard one'
  end
  return one
end

-- Dimensions as arguments: of each its name, its hard limit and its soft one. Gives a list of them;
-- nil and what is wrong.
function budget.limits(words)
  if #words % 3 ~= 0 then return nil, 'dimensions must come with two limits each' end
  local list, seen = {}, {}
  for at = 1, #words, 3 do
    local one, wrong = read_dimension(words, at, seen)
    if not one then return nil, wrong end
    list[#list + 1] = one
  end
  return list
end

return budget
