-- Gates: what an execution must pass before a worker is told of its claim. They are fixed at its
-- creation and live in partitions of their own, so that a claim is an ordinary lease first, and its
-- gates are asked behind it, all at once (verb/quota.lua). A gate goes by one text here and there:
-- `q:<policy>:<key>` is one key of a quota policy, `b:<id>` is a budget.
--
-- A refusal closes the gate in this partition: who would be claimable and needs it is parked there
-- instead, by its score in the queue, until the gate opens for as many as may pass. A closed gate
-- that somebody waits at is always known where it lives, or the outbox owes that it becomes known.

local keys = require('kernel.keys')
local limit = require('kernel.limit')
local number = require('kernel.number')
local pack = require('kernel.pack')
local outbox = require('model.outbox')
local record = require('model.record')
local state = require('model.state')

local gate = {}

-- Why somebody waits at a gate, by the gate's first letter.
gate.REASONS = { q = 'waiting_for_quota', b = 'waiting_for_budget' }

local LETTERS = { waiting_for_quota = 'q', waiting_for_budget = 'b' }

function gate.quota_name(id, key) return 'q:' .. id .. ':' .. key end

function gate.budget_name(id) return 'b:' .. id end

-- Gives a new execution its budgets, and says how much of each it reserves while it runs.
function gate.set_budgets(w, x, ids, reserves)
  if #ids == 0 then return end
  record.set(x, 'budgets', #ids)
  x.budget_ids, x.reserves = ids, reserves
  w[#w + 1] = { 'SET', keys.budgets(x.key), table.concat(ids, ',') .. ';' .. reserves }
end

-- The ids of its budgets, and what it reserves of each. They are kept beside the record, and read
-- once.
local function budgets(x)
  if not x.budget_ids then
    local text, ids = redis.call('GET', keys.budgets(x.key)) or '', {}
    local list, reserves = string.match(text, '^([^;]*);(.*)$')
    for id in string.gmatch(list or '', '[^,]+') do ids[#ids + 1] = id end
    x.budget_ids, x.reserves = ids, reserves or ''
  end
  return x.budget_ids, x.reserves
end

-- All gates of an execution, flat: of each the letter, the id, and what is asked for there; nil if
-- it has none.
function gate.list(x)
  if not x.quota_id and not x.budgets then return nil end
  local list = x.quota_id and { 'q', x.quota_id, x.quota_key or '' } or {}
  if not x.budgets then return list end
  local ids, reserves = budgets(x)
  for i = 1, #ids do
    list[#list + 1], list[#list + 2] = 'b', ids[i]
    list[#list + 1] = reserves
  end
  return list
end

-- The ids of its budgets, in their order.
function gate.budget_ids(x) return x.budgets and (budgets(x)) or {} end

-- What it reserves of each of them, as model/amount.lua writes it.
function gate.reserves(x) return x.budgets and select(2, budgets(x)) or '' end

-- Is this one of its budgets?
function gate.has_budget(x, id)
  local ids = gate.budget_ids(x)
  for i = 1, #ids do if ids[i] == id then return true end end
  return false
end

-- The gate that an execution waits at for this reason; nil if none of its gates is a reason.
function gate.waits_at(x, reason)
  if reason == 'waiting_for_quota' and x.quota_id then
    return gate.quota_name(x.quota_id, x.quota_key or '')
  end
  if reason == 'waiting_for_budget' and x.budgets and x.budget_awaited then
    return gate.budget_name(x.budget_awaited)
  end
  return nil
end

-- Does a parked execution wait at this gate?
function gate.is_at(x, name)
  return x.state == 'parked' and gate.waits_at(x, x.park_reason) == name
end

-- Does a parked execution wait at the gate of its quota?
function gate.is_at_quota(x)
  return x.state == 'parked' and x.park_reason == gate.REASONS.q and x.quota_id ~= nil
end

-- The first of its budgets whose gate is closed; nil if none is.
function gate.closed_budget(p, x)
  local ids, names = budgets(x), {}
  for i = 1, #ids do names[i] = gate.budget_name(ids[i]) end
  if #names == 0 then return nil end
  local closed = redis.call('HMGET', p.closed, unpack(names))
  for i = 1, #ids do if closed[i] then return ids[i] end end
  return nil
end

-- Why an execution would be parked at a closed gate now; nil if all its gates are open.
local function closed_reason(p, x)
  local name = gate.waits_at(x, gate.REASONS.q)
  if name and redis.call('HEXISTS', p.closed, name) == 1 then return gate.REASONS.q end
  local id = x.budgets and gate.closed_budget(p, x)
  if not id then return nil end
  record.set(x, 'budget_awaited', id)
  return gate.REASONS.b
end

-- Parks a claimable execution if one of its gates is closed; gives whether it did.
function gate.park_if_closed(p, x)
  local reason = not x.passes and closed_reason(p, x)
  if not reason then return false end
  record.set(x, 'park_reason', reason)
  record.set(x, 'state', 'parked')
  return true
end

-- Closes a gate because of an execution that must wait there: nobody passes until somebody opens
-- it, at this time, if that is known. Of a gate that is closed already it is known, or owed.
function gate.close(w, p, name, opens_at, x)
  if redis.call('HEXISTS', p.closed, name) == 0 then
    outbox.owe(w, table.concat({ 'wait', x.uuid, x.lease_epoch or '0', number.text(w.now), name },
      ':'))
  end
  w[#w + 1] = { 'HSET', p.closed, name, opens_at or '' }
end

-- The gate is open again: nobody waits there.
function gate.reopen(w, p, name) w[#w + 1] = { 'HDEL', p.closed, name } end

-- Is this a reason to wait at a gate?
function gate.is_reason(reason) return LETTERS[reason] ~= nil end

-- What the gates gave a lease goes back: it is over, whatever ended it. This is written where every
-- record is, so that no way to end a lease can forget it. The claim itself writes no such entry: a
-- lease always ends, by its tick if nobody else ends it, and its end does.
function gate.release(w, x)
  outbox.write(w, 'release:' .. x.uuid .. ':' .. (x.lease_epoch or '0') .. ':'
    .. (x.never_ran and '0' or '1') .. ':' .. pack.join(gate.list(x)))
  redis.call('DEL', keys.undo(x.key))
end

-- What the gates know of an execution that is gone is not needed any more. They hear of it some
-- time after its end, so that neither the release of its last lease nor a question that was on its
-- way finds it forgotten.
function gate.forget(w, x)
  local list = gate.list(x)
  if not list then return end
  local at = number.stored(x.ended_at, 0) + limit.purged_remembered_ms
  outbox.owe(w, 'forget:' .. x.uuid .. ':' .. pack.join(list), at)
end

-- Is an execution about to become claimable, so that a closed gate holds it back?
function gate.concerns(x)
  return (x.quota_id or x.budgets) and state.CLAIMABLE[x.state] and not state.CLAIMABLE[x.was]
end

return gate
