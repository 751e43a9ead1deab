-- Waitpoints: what an execution waits on, and where signals for it go. A hash of its own, named by
-- its id; the execution lists its waitpoints in one hash, id -> `number:suspension id:key`, in
-- which the key of an open one is unique. The latest closed ones are kept: they are the history of
-- suspensions, and late signals are recognised by them.
--
--   execution, attempt, key, created_at   whose it is; what its token is made of
--   opened_under, suspended_under         `epoch:lease id` of who opened it, and of who suspended
--                                         the execution on it: by that a repetition proves itself
--   state         pending active closed
--   expires_at    when a pending one goes by itself
--   suspension, reason, requested_by, worker, since, timeout_at, behavior, delay_ms, details
--                 the suspension, once there is one; `worker` is the process that asked for it
--   approval, decisions                   what approvers are asked; the numbers of the signals that
--                                         are their decisions, comma-joined (model/decision.lua)
--   budget        which budget asks, behind the number of the question (verb/stop.lua)
--   condition, progress                   model/condition.lua
--   count, matched, bytes, last_signal_at its signals so far (model/signal.lua)
--   satisfied     the numbers of the signals that ended the wait, comma-joined
--   closed_at, close_reason, ended_by, ended_name
--                 how it was closed; what ended the wait, and its name: the signal, the operator
--   escalated_at  since when an operator is asked
--   kept_lease    1 if it was satisfied before the execution could be suspended on it

local keys = require('kernel.keys')
local limit = require('kernel.limit')
local number = require('kernel.number')
local writes = require('kernel.writes')
local lease = require('model.lease')
local record = require('model.record')

local waitpoint = {}

-- What stands for one in `due`.
waitpoint.PREFIX = 'p:'

-- Keeps a waitpoint until the end of the call, as executions are.
local function keep(p, one)
  p.waitpoints = p.waitpoints or {}
  p.waitpoints[one.id] = one
  return one
end

-- Is there what its token is made of? Nobody can do anything with the rest of a damaged one.
local function is_whole(one)
  return one.execution and one.attempt and one.key and one.created_at
end

-- A waitpoint; nil if there is none of this id. Read again in the same call it is the same table.
function waitpoint.read(p, id)
  local one = p.waitpoints and p.waitpoints[id]
  if one then return one end
  local path = p.waitpoint .. id
  local flat = redis.call('HGETALL', path)
  one = { id = id, path = path }
  for i = 1, #flat, 2 do one[flat[i]] = flat[i + 1] end
  return is_whole(one) and keep(p, one) or nil
end

-- No more of a waitpoint than its token is made of, for whoever has not shown that yet.
function waitpoint.outline(p, id)
  local found = redis.call('HMGET', p.waitpoint .. id, 'execution', 'attempt', 'key', 'created_at')
  local one = { id = id, execution = found[1], attempt = found[2], key = found[3],
    created_at = found[4] }
  return is_whole(one) and one or nil
end

-- The waitpoint that an execution waits on or that ended its latest wait.
function waitpoint.latest(p, x) return x.waitpoint_id and waitpoint.read(p, x.waitpoint_id) end

-- Assigns fields, given as names and values in turn; all of one call become one command.
function waitpoint.set(w, one, fields)
  local command = one.command
  if not command then
    command = { 'HSET', one.path }
    w[#w + 1], one.command = command, command
  end
  for i = 1, #fields, 2 do
    one[fields[i]] = fields[i + 1]
    command[#command + 1], command[#command + 2] = fields[i], fields[i + 1]
  end
end

-- Removes fields.
function waitpoint.drop(w, one, names)
  local command = { 'HDEL', one.path }
  for i = 1, #names do command[#command + 1], one[names[i]] = names[i], nil end
  w[#w + 1] = command
end

local function listed(key)
  local list, flat = {}, redis.call('HGETALL', keys.waitpoints(key))
  for i = 1, #flat, 2 do
    local place, suspension, key = string.match(flat[i + 1], '^(%d+):([^:]*):(.*)$')
    if place then
      list[#list + 1] = { id = flat[i], number = tonumber(place), suspension = suspension,
        key = key }
    end
  end
  table.sort(list, function(a, b) return a.number < b.number end)
  return list
end

local NONE = {}

-- The waitpoints of an execution, oldest first: { id, number, suspension, key } each.
function waitpoint.list(x) return x.waitpoint_count and listed(x.key) or NONE end

-- The id of the waitpoint of this key of an execution that may not exist; nil if there is none.
function waitpoint.by_key(p, uuid, key)
  local found = waitpoint.find(listed(p.execution .. uuid), 'key', key)
  return found and found.id
end

-- The latest one of a list that has this in a field; nil if none has.
function waitpoint.find(list, name, value)
  for i = #list, 1, -1 do if list[i][name] == value then return list[i] end end
  return nil
end

local function note(w, x, one)
  w[#w + 1] = { 'HSET', keys.waitpoints(x.key), one.id,
    number.text(one.number) .. ':' .. (one.suspension or '') .. ':' .. one.key }
end

function waitpoint.is_open(one) return one.state == 'pending' or one.state == 'active' end

local function forget(w, p, x, id)
  local path = p.waitpoint .. id
  w[#w + 1] = { 'UNLINK', path, keys.signals(path) }
  w[#w + 1] = { 'HDEL', keys.waitpoints(x.key), id }
end

-- Makes room for one more: the oldest closed ones go, but never the latest suspension's.
local function trim(w, p, x, list)
  local closed = {}
  for i = 1, #list do
    if list[i].id ~= x.waitpoint_id then
      local state = redis.call('HGET', p.waitpoint .. list[i].id, 'state')
      if state ~= 'pending' and state ~= 'active' then closed[#closed + 1] = list[i].id end
    end
  end
  for i = 1, #closed - limit.waitpoints_kept + 1 do forget(w, p, x, closed[i]) end
end

-- Why an execution cannot have another waitpoint of this id and key; nil if it can.
function waitpoint.refusal(p, list, id, key)
  if redis.call('EXISTS', p.waitpoint .. id) == 1 then return 'waitpoint_already_exists' end
  local same = waitpoint.find(list, 'key', key)
  if not same then return nil end
  local state = redis.call('HGET', p.waitpoint .. same.id, 'state')
  return (state == 'pending' or state == 'active') and 'waitpoint_already_exists' or nil
end

-- Makes a waitpoint of the running attempt; the caller gives it a state and so puts it on the list.
function waitpoint.create(w, p, x, list, id, key, attempt, now)
  local one = keep(p, { id = id, path = p.waitpoint .. id,
    number = number.stored(x.waitpoint_count, 0) + 1 })
  if #list >= limit.waitpoints_kept then trim(w, p, x, list) end
  record.set(x, 'waitpoint_count', one.number)
  waitpoint.set(w, one, { 'execution', x.uuid, 'attempt', number.text(attempt), 'key', key,
    'created_at', number.text(now), 'opened_under', lease.proof(x) })
  return one
end

-- A listed waitpoint belongs to this suspension from now on.
function waitpoint.bind(w, x, one, list, suspension)
  local listed = waitpoint.find(list, 'id', one.id)
  one.number, one.suspension = listed and listed.number or one.number, suspension
  note(w, x, one)
end

local function more_pending(x, step)
  local count = number.stored(x.pending_waitpoints, 0) + step
  if count > 0 then
    record.set(x, 'pending_waitpoints', count)
  else
    record.drop(x, { 'pending_waitpoints' })
  end
end

-- Opens it for signals before the execution is suspended.
function waitpoint.make_pending(w, p, x, one, expires_at)
  more_pending(x, 1)
  note(w, x, one)
  waitpoint.set(w, one, { 'state', 'pending', 'expires_at', number.text(expires_at) })
  w[#w + 1] = { 'ZADD', p.due, expires_at, waitpoint.PREFIX .. one.id }
  writes.due(w, expires_at)
end

-- A pending one stops being that.
function waitpoint.settle(w, p, x, one)
  if one.state ~= 'pending' then return end
  if x then more_pending(x, -1) end
  w[#w + 1] = { 'ZREM', p.due, waitpoint.PREFIX .. one.id }
end

-- Closes it, whatever the reason; `ended_by` says what ended the wait, if one was, and its name.
function waitpoint.close(w, p, x, one, now, reason, ended_by, ended_name)
  if not waitpoint.is_open(one) then return end
  waitpoint.settle(w, p, x, one)
  waitpoint.set(w, one, { 'state', 'closed', 'closed_at', number.text(now), 'close_reason', reason,
    'ended_by', ended_by or '' })
  if ended_name and ended_name ~= '' then waitpoint.set(w, one, { 'ended_name', ended_name }) end
end

-- What ended the wait, as the log tells it; nil if nothing did.
function waitpoint.ended_by(one)
  if (one.ended_by or '') == '' then return nil end
  return one.ended_name and one.ended_by .. ':' .. one.ended_name or one.ended_by
end

-- Closes what is open of an execution that is over.
function waitpoint.close_all(w, p, x, now, reason)
  if x.state == 'suspended' then
    local one = waitpoint.latest(p, x)
    if one then waitpoint.close(w, p, x, one, now, reason) end
  end
  if not x.pending_waitpoints then return end
  local list = waitpoint.list(x)
  for i = 1, #list do
    local one = waitpoint.read(p, list[i].id)
    if one and one.state == 'pending' then waitpoint.close(w, p, x, one, now, reason) end
  end
end

-- Removes everything of the execution that has this key; gives how many there were.
function waitpoint.purge(w, p, key)
  local list = listed(key)
  for i = 1, #list do
    local path = p.waitpoint .. list[i].id
    w[#w + 1] = { 'UNLINK', path, keys.signals(path) }
  end
  if #list > 0 then w[#w + 1] = { 'UNLINK', keys.waitpoints(key) } end
  return #list
end

return waitpoint
