-- Records: an execution as a table. Reading takes the fields a function needs, by name, and keeps
-- what says where the execution was listed. An execution that is read again in the same call is the
-- same table, so that all effects on it add up. `set` and setters assign fields, `drop` removes
-- them; model/index.lua writes what changed.

local field = require('model.field')

local record = {}

-- The fields from which it follows where an execution is listed.
local LISTING = { state = true, lane = true, priority = true, ageing_ms = true, created_at = true,
  lease_expires_at = true, timeout_at = true, delay_until = true, deadline_at = true,
  grant_expires_at = true, suspend_until = true, retention_ms = true, remembered_until = true,
  ended_at = true, park_reason = true, parked_at = true }

-- Fields that most executions never get. One that has any of them is marked, so that a call which
-- must know of them all need not ask for each.
local UNCOMMON = { attempt_id = true, retention_ms = true, remembered_until = true, frames = true,
  waitpoint_count = true, pending_waitpoints = true, flow_id = true, park_reason = true,
  quota_id = true, budgets = true, throttle = true }

-- Empty records. Naming the fields that most functions use gives the table its size at once, a
-- power of two; growing it field by field costs more than all the rest of a read.
local function blank(uuid, key)
  return { uuid = uuid, key = key, state = nil, lane = nil, kind = nil, namespace = nil,
    created_at = nil, payload = nil, lease_id = nil, lease_epoch = nil,
    lease_expires_at = nil, attempt_count = nil, worker_instance_id = nil, queue_name = nil,
    was = nil, sets = nil, moved = nil, changed = nil, event = nil, whole = true }
end

local function small_blank(uuid, key, state)
  return { uuid = uuid, key = key, state = state, was = state, lease_id = nil, lease_epoch = nil,
    lease_expires_at = nil, attempt_count = nil, worker_instance_id = nil,
    namespace = nil, ended_at = nil, sets = nil, moved = nil, changed = nil, event = nil }
end

-- Keeps a record until the end of the call. Most calls read one execution, and need no table.
local function keep(p, x)
  local first, seen = p.first_read, p.read
  if not first then
    p.first_read = x
  elseif seen then
    seen[x.uuid] = x
  else
    p.read = { [x.uuid] = x }
  end
  return x
end

-- What this call has read of an execution.
local function kept(p, uuid)
  local first = p.first_read
  if not first then return nil end
  if first.uuid == uuid then return first end
  return p.read and p.read[uuid]
end

-- Whoever reads an execution after this call removed it finds none.
function record.remove(x) x.removed = true end

-- A function that reads these fields of an execution; nil if there is no such execution. Whoever
-- changes fields that a listing follows from must have read all that decide about it. With `marked`
-- among the names, all of an execution that has uncommon fields is read.
function record.reader(names)
  local command, count = { 'HMGET', '', field.state }, #names
  for i = 1, count do command[i + 3] = field[names[i]] end
  return function(p, uuid)
    if kept(p, uuid) then return record.read(p, uuid) end
    local key = p.execution .. uuid
    command[2] = key
    local values = redis.call(unpack(command))
    if not values[1] then return nil end
    local x = small_blank(uuid, key, values[1])
    for i = 1, count do
      local value = values[i + 1]
      if value then x[names[i]] = value end
    end
    keep(p, x)
    return x.marked and record.read(p, uuid) or x
  end
end

-- Made on first use: nothing that walks a table exists while the library loads.
local long_names

local function invert()
  long_names = {}
  for name, stored in pairs(field) do long_names[stored] = name end
end

-- The stored fields, by their long names. A field we do not know is a newer library's business; it
-- must not stop an older one.
local function fill(x, flat)
  if not long_names then invert() end
  local names = long_names
  for i = 1, #flat, 2 do
    local name = names[flat[i]]
    if name then x[name] = flat[i + 1] end
  end
end

-- The same, but for those that the record has a value of.
local function fill_up(x, flat)
  if not long_names then invert() end
  for i = 1, #flat, 2 do
    local name = long_names[flat[i]]
    if name and x[name] == nil then x[name] = flat[i + 1] end
  end
end

-- Reads the rest of a record of which some fields were read, and perhaps changed, before.
local function complete(x, flat)
  local drops = x.drops
  -- By what is stored, whatever this call has made of it since.
  for i = 1, #flat, 2 do
    if flat[i] == field.grant_expires_at then x.reserved = true end
    if flat[i] == field.parked_at then x.was_parked_at = flat[i + 1] end
    if flat[i] == field.park_reason then x.was_park_reason = flat[i + 1] end
  end
  fill_up(x, flat)
  for i = 3, drops and #drops or 0 do
    if not record.is_set(x, drops[i]) then x[long_names[drops[i]]] = nil end
  end
  x.whole = true
  return x
end

-- The whole execution; nil if there is no such execution.
function record.read(p, uuid)
  local x = kept(p, uuid)
  if x and x.removed then return nil end
  if x and x.whole then return x end
  local key = p.execution .. uuid
  local flat = redis.call('HGETALL', key)
  if x then return complete(x, flat) end
  if #flat == 0 then return nil end
  x = blank(uuid, key)
  fill(x, flat)
  -- What is left of a purged execution has no state.
  if not x.state then return nil end
  x.was = x.state
  if x.grant_expires_at then x.reserved = true end
  x.was_parked_at, x.was_park_reason = x.parked_at, x.park_reason
  return keep(p, x)
end

-- A record that does not exist yet.
function record.new(p, uuid) return keep(p, blank(uuid, p.execution .. uuid)) end

-- The position of a stored field among those that are to be written; nil if it is not.
local function position(sets, stored)
  for i = 3, #sets, 2 do if sets[i] == stored then return i end end
  return nil
end

-- Is a stored field given a value by this call?
function record.is_set(x, stored) return x.sets and position(x.sets, stored) ~= nil end

-- Assigns one field. Without a value, as of another field that a damaged record lacks, nothing.
function record.set(x, name, value)
  if value == nil then return end
  x[name] = value
  if LISTING[name] then x.moved = true end
  local sets = x.sets
  if sets then
    local count = #sets
    sets[count + 1], sets[count + 2] = field[name], value
  else
    x.sets = { 'HSET', x.key, field[name], value }
  end
  if UNCOMMON[name] and not x.marked then record.set(x, 'marked', '1') end
end

-- A function that assigns these fields, at most eight, all of which must be given a value: it costs
-- a fraction of the same field by field.
function record.setter(names)
  local n1, n2, n3, n4 = names[1], names[2], names[3], names[4]
  local n5, n6, n7, n8 = names[5], names[6], names[7], names[8]
  local s1, s2, s3, s4 = field[n1], field[n2 or ''], field[n3 or ''], field[n4 or '']
  local s5, s6, s7, s8 = field[n5 or ''], field[n6 or ''], field[n7 or ''], field[n8 or '']
  local count, moves = #names, false
  for i = 1, count do moves = moves or LISTING[names[i]] end
  return function(x, v1, v2, v3, v4, v5, v6, v7, v8)
    local sets = x.sets
    if sets then
      local n = #sets
      sets[n + 1], sets[n + 2], sets[n + 3], sets[n + 4] = s1, v1, s2, v2
      if n3 then sets[n + 5], sets[n + 6], sets[n + 7], sets[n + 8] = s3, v3, s4, v4 end
      if n5 then sets[n + 9], sets[n + 10], sets[n + 11], sets[n + 12] = s5, v5, s6, v6 end
      if n7 then sets[n + 13], sets[n + 14], sets[n + 15], sets[n + 16] = s7, v7, s8, v8 end
    else
      x.sets = { 'HSET', x.key, s1, v1, s2, v2, s3, v3, s4, v4, s5, v5, s6, v6, s7, v7, s8, v8 }
    end
    if moves then x.moved = true end
    x[n1] = v1
    if n2 then x[n2] = v2 end
    if n3 then x[n3] = v3 end
    if n4 then x[n4] = v4 end
    if n5 then x[n5] = v5 end
    if n6 then x[n6] = v6 end
    if n7 then x[n7] = v7 end
    if n8 then x[n8] = v8 end
  end
end

-- Forgets that a field was to be written.
local function unset(sets, stored)
  local at = position(sets, stored)
  while at do
    local last = #sets
    sets[at], sets[at + 1] = sets[last - 1], sets[last]
    sets[last - 1], sets[last] = nil, nil
    at = position(sets, stored)
  end
end

-- Removes fields that have a value; the others cost nothing.
function record.drop(x, names)
  for i = 1, #names do
    local name = names[i]
    if x[name] then
      x.drops = x.drops or { 'HDEL', x.key }
      x.drops[#x.drops + 1] = field[name]
      x[name] = nil
      if x.sets then unset(x.sets, field[name]) end
      if LISTING[name] then x.moved = true end
    end
  end
end

-- Writes the fields: what is removed first, so that a field can be given a new value.
function record.write(x)
  if x.drops then redis.call(unpack(x.drops)) end
  local sets = x.sets
  if sets and sets[3] then redis.call(unpack(sets)) end
end

return record
