-- Usage: what one execution has used of a budget, and what is promised to it. Its record is kept
-- from its first admission until it is purged: `admitted` is the epoch of the lease that may
-- report, `released` the highest one that is over; `u:<dimension>` what it used in `period`,
-- `r:<dimension>` what is still promised. What its reports said and were answered is kept beside
-- it, by their keys.

local keys = require('kernel.keys')
local limit = require('kernel.limit')
local number = require('kernel.number')
local pack = require('kernel.pack')
local amount = require('model.amount')
local budget = require('model.budget')
local fields = require('model.fields')

local usage = {}

-- What is known of an execution under a budget; empty if it never passed.
function usage.read(b, execution_id)
  local u = fields.read(keys.usage(b.key, execution_id))
  u.id = execution_id
  u.admitted, u.released = fields.number(u, 'admitted'), fields.number(u, 'released')
  return u
end

-- Who reports last is listed last.
local function touch(w, b, u, now) w[#w + 1] = { 'ZADD', keys.users(b.key), now, u.id } end

-- Gives back what is promised to an execution; gives whether anything was.
local function give_back(w, b, u)
  local names = fields.behind(u, 'r:')
  for i = 1, #names do
    local rest = fields.number(u, 'r:' .. names[i])
    fields.set(w, b, 'reserved:' .. names[i],
      math.max(fields.number(b, 'reserved:' .. names[i]) - rest, 0))
    fields.set(w, u, 'r:' .. names[i], nil)
  end
  return #names > 0
end

-- Promises an execution so much of each dimension that has a hard limit.
function usage.promise(w, b, u, list)
  for i = 1, #list do
    local name, more = list[i].name, list[i].value
    if more > 0 and b.stored['hard:' .. name] then
      fields.add(w, b, 'reserved:' .. name, more)
      fields.add(w, u, 'r:' .. name, more)
    end
  end
end

-- May a lease pass? Gives the outcome, and which dimension lacks room. A later lease of an
-- execution takes over from an earlier one, whose release is on its way.
function usage.admit(w, b, u, epoch, wanted, now)
  if u.admitted == epoch then return 'ALREADY_ADMITTED' end
  if epoch <= math.max(u.released, u.admitted) then return 'stale_lease' end
  if u.admitted > 0 then
    give_back(w, b, u)
    fields.set(w, u, 'released', u.admitted)
    fields.set(w, u, 'admitted', nil)
  end
  local name, taken, most = budget.lacks(b, wanted)
  if name then return 'BUDGET_EXCEEDED', name, taken, most end
  usage.promise(w, b, u, wanted)
  fields.set(w, u, 'admitted', epoch)
  touch(w, b, u, now)
  return 'ADMITTED'
end

-- Notes that a lease is over; gives whether that was not known before.
function usage.note_end(w, u, epoch)
  if epoch <= u.released then return false end
  fields.set(w, u, 'released', epoch)
  return true
end

-- A lease is over, and the rest of what was promised to it goes back. Gives whether that was not
-- known before, and whether anything went back.
function usage.release(w, b, u, epoch)
  if not usage.note_end(w, u, epoch) then return false, false end
  if u.admitted == 0 or u.admitted > epoch then return true, false end
  fields.set(w, u, 'admitted', nil)
  return true, give_back(w, b, u)
end

-- Why a lease may not report; nil if it may.
function usage.refusal(u, epoch)
  if u.admitted == epoch then return nil end
  return u.admitted == 0 and u.released == 0 and 'no_active_lease' or 'stale_lease'
end

local function counted_before(b, u)
  if fields.number(u, 'period') ~= fields.number(b, 'period') then return {} end
  return u.stored
end

-- Would a number become too large to be exact?
function usage.overflows(b, list)
  for i = 1, #list do
    if budget.taken(b, list[i].name) + list[i].value > number.max then return list[i].name end
  end
  return nil
end

-- Would the budget have more dimensions than one may have?
function usage.has_room(b, list)
  local count = #budget.dimensions(b)
  for i = 1, #list do
    local name = list[i].name
    if not b.stored['used:' .. name] and not b.stored['hard:' .. name]
      and not b.stored['soft:' .. name] then
      count = count + 1
    end
  end
  return count <= limit.dimensions_max
end

-- Uses up what was promised of a dimension.
local function use_promise(w, b, u, name, value)
  local promised = fields.number(u, 'r:' .. name)
  local used = math.min(promised, value)
  if used == 0 then return end
  fields.set(w, u, 'r:' .. name, promised > used and promised - used or nil)
  fields.set(w, b, 'reserved:' .. name,
    math.max(fields.number(b, 'reserved:' .. name) - used, 0))
end

-- Adds what an execution has used to what it has used before in this period.
local function count_for(w, b, u, list, now)
  local before = counted_before(b, u)
  if before ~= u.stored then
    local old = fields.behind(u, 'u:')
    for i = 1, #old do fields.set(w, u, 'u:' .. old[i], nil) end
    fields.set(w, u, 'period', fields.number(b, 'period'))
  end
  for i = 1, #list do
    local name, more = list[i].name, list[i].value
    local value = number.stored(before['u:' .. name], 0) + more
    fields.set(w, u, 'u:' .. name, value)
    use_promise(w, b, u, name, more)
  end
  touch(w, b, u, now)
end

-- Notes that a limit is crossed: it was not reached before, and is now.
local function cross(w, b, u, kind, name, before, now)
  local most, after = budget.limit(b, kind .. ':' .. name), fields.number(b, 'used:' .. name)
  if not most or before >= most or after < most then return false end
  budget.tell(w, b, kind .. '_limit', now, name .. ':' .. number.text(after) .. ':'
    .. number.text(most) .. ':' .. u.id)
  fields.add(w, b, kind == 'hard' and 'breach_count' or 'soft_breach_count', 1)
  if kind == 'hard' then
    fields.set(w, b, 'last_breach_at', now)
    fields.set(w, b, 'last_breach_dimension', name)
  end
  return true
end

-- Counts what was used, whatever the limits say. Gives whether a hard limit is crossed by that.
function usage.count(w, b, u, list, now)
  local crossed = false
  for i = 1, #list do
    local name, more = list[i].name, list[i].value
    local before = fields.number(b, 'used:' .. name)
    fields.set(w, b, 'used:' .. name, before + more)
    crossed = cross(w, b, u, 'hard', name, before, now) or crossed
    cross(w, b, u, 'soft', name, before, now)
  end
  count_for(w, b, u, list, now)
  return crossed
end

-- What there is to say after a report: a word, and of a reached limit its dimension, usage and
-- value.
function usage.standing(b)
  local name, used, most = budget.reached(b, 'hard')
  if name then return 'HARD_BREACH', name, used, most end
  name, used, most = budget.reached(b, 'soft')
  if name then return 'SOFT_BREACH', name, used, most end
  return 'OK', '', 0, 0
end

-- The answer to a report under this key, if one was made; nil if none was, false if it said
-- something else.
function usage.known(u, key, list)
  local text = key ~= '' and redis.call('HGET', keys.reports(u.key), key)
  local parts = text and pack.split(text)
  if not parts then return nil end
  return parts[1] == amount.text(list) and parts or false
end

-- Are as many keys of reports remembered as may be?
function usage.is_full(u, key)
  return key ~= '' and redis.call('HLEN', keys.reports(u.key)) >= limit.usage_keys_max
end

-- Remembers what a report under a key said, and what it was answered.
function usage.remember(w, u, key, list, word, name, used, most)
  if key == '' then return end
  w[#w + 1] = { 'HSET', keys.reports(u.key), key,
    pack.join { amount.text(list), word, name, number.text(used), number.text(most) } }
end

-- The execution is gone: what it used stays counted, and nobody is known for it.
function usage.forget(w, b, u)
  local before = counted_before(b, u)
  local names = budget.dimensions(b)
  for i = 1, #names do
    local used = number.stored(before['u:' .. names[i]], 0)
    if used > 0 then fields.add(w, b, 'other:' .. names[i], used) end
  end
  local freed = give_back(w, b, u)
  budget.forget_user(w, b.key, u.id)
  return freed
end

-- What an execution used and what is promised to it, by dimension, for a reader.
function usage.rows(b, u)
  local before, rows, names = counted_before(b, u), {}, budget.dimensions(b)
  for i = 1, #names do
    local used, promised = before['u:' .. names[i]], u.stored['r:' .. names[i]]
    if used or promised then
      rows[#rows + 1] = { names[i], used or '0', promised or '0' }
    end
  end
  return rows
end

return usage
