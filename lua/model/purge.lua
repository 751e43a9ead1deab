-- Purge: an execution and everything that belongs to it disappears. If it ended only a moment ago,
-- its outcome and last lease stay until a minute has passed, so that whoever ended or created it
-- and lost the answer is told the truth: a record without a state, which counts as no execution.

local blob = require('model.blob')
local keys = require('kernel.keys')
local limit = require('kernel.limit')
local need = require('model.need')
local number = require('kernel.number')
local record = require('model.record')
local field = require('model.field')
local gate = require('model.gate')
local stream = require('model.stream')
local writes = require('kernel.writes')
local waitpoint = require('model.waitpoint')

local purge = {}

local REMEMBERED_MS = limit.purged_remembered_ms

local function delete(w, key)
  w[#w + 1] = { 'DEL', keys.blob(key, 'payload'), keys.blob(key, 'result'),
    keys.blob(key, 'policy'), keys.blob(key, 'detail'), keys.tags(key), keys.attempts(key),
    keys.undo(key), keys.budgets(key), key }
end

local function forget(w, p, uuid, outcome)
  w[#w + 1] = { 'ZREM', p.ended[outcome], uuid }
  w[#w + 1] = { 'ZREM', p.all, uuid }
  p.purge_at = 0
end

local function leave(w, p, x, until_ms)
  local command = { 'HSET', x.key, field.gone, x.state .. ':' .. (x.attempt_end or '') }
  if x.lease_epoch then
    command[#command + 1], command[#command + 2] = field.lease_epoch, x.lease_epoch
  end
  w[#w + 1] = command
  w[#w + 1] = { 'ZADD', p.ended[x.state], until_ms, x.uuid }
  p.purge_at = math.min(p.purge_at, until_ms)
end

-- The idempotency key goes with its execution, unless it stands for another one by now.
local function forget_key(w, p, x)
  if not x.remembered_until then return end
  local name = (x.namespace or '') .. ':' .. (blob.get(x, 'idempotency') or '')
  local text = redis.call('HGET', p.idempotency, name)
  if text and string.find(text, ':' .. x.uuid .. ':', 1, true) then
    w[#w + 1] = { 'HDEL', p.idempotency, name }
  end
end

local function forget_need(w, x)
  if x.lane then need.forget(w, x.lane, need.of(x)) end
end

local function is_remembered(x, now)
  return now < number.stored(x.ended_at, 0) + REMEMBERED_MS
end

-- A member of a flow goes with its flow, whatever became of it.
function purge.member(w, p, uuid, now)
  local key, x = p.execution .. uuid, record.read(p, uuid)
  delete(w, key)
  w[#w + 1] = { 'DEL', keys.outgoing(key), keys.incoming(key), keys.inputs(key),
    keys.children(key) }
  w[#w + 1] = { 'ZREM', p.due, uuid }
  w[#w + 1] = { 'ZREM', p.parked, uuid }
  if not x or x.waitpoint_count then waitpoint.purge(w, p, key) end
  local ended = x and p.ended[x.state]
  if x then
    record.remove(x)
    gate.forget(w, x)
    forget_key(w, p, x)
    forget_need(w, x)
    stream.purge(w, x)
  end
  if ended and is_remembered(x, now) then
    leave(w, p, x, number.stored(x.ended_at, 0) + REMEMBERED_MS)
  else
    w[#w + 1] = { 'ZREM', p.all, uuid }
    if ended then w[#w + 1] = { 'ZREM', ended, uuid } end
  end
end

-- Removes what an entry among the ended ones stands for. An entry whose execution is alive, or
-- ended otherwise, is wrong: it alone is removed. Gives what was done, and how much that was.
function purge.execution(w, p, uuid, outcome, now)
  local x = record.read(p, uuid)
  if x and x.state ~= outcome then
    w[#w + 1] = { 'ZREM', p.ended[outcome], uuid }
    return 'corrected', 1
  end
  delete(w, p.execution .. uuid)
  local waits = 0
  if not x or x.waitpoint_count then waits = waitpoint.purge(w, p, p.execution .. uuid) end
  if not x then
    forget(w, p, uuid, outcome)
    return 'forgotten', 1 + waits
  end
  gate.forget(w, x)
  forget_key(w, p, x)
  forget_need(w, x)
  local streams = stream.purge(w, x)
  local until_ms = number.stored(x.ended_at, 0) + REMEMBERED_MS
  if is_remembered(x, now) then leave(w, p, x, until_ms) else forget(w, p, uuid, outcome) end
  return 'purged', 1 + streams + waits
end

-- The outcome that is left of a purged execution; nil if nothing is.
function purge.outcome(p, uuid)
  local gone = redis.call('HGET', p.execution .. uuid, field.gone)
  return gone and string.match(gone, '^%l+')
end

-- Is what the caller's lease, or anybody if that does not matter, did to an execution that was
-- purged since what this pattern says?
function purge.ended_as(p, a, pattern, by_anybody)
  local left = redis.call('HMGET', p.execution .. a.execution_id, field.gone, field.lease_epoch)
  if not left[1] or not string.find(left[1], pattern) then return false end
  return by_anybody or left[2] == a.lease_epoch
end

return purge
