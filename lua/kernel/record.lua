-- Records: an execution as a table. Reading takes the fields a function needs, by name, and keeps
-- what says where the execution was listed. `set` and `put` assign fields, `drop` removes them; the
-- changes are written by model/index.lua, or by `save` if they concern no index.

local field = require('model.field')

local record = {}

-- Empty records. Naming the fields that most functions use gives the table its size at once, a
-- power of two; growing it field by field costs more than all the rest of a read.
local function blank(uuid, key)
  return { uuid = uuid, key = key, state = nil, lane = nil, kind = nil, namespace = nil,
    created_at = nil, payload = nil, payload2 = nil, lease_id = nil, lease_epoch = nil,
    lease_expires_at = nil, attempt_count = nil, was = nil, sets = nil, event = nil }
end

local function small_blank(uuid, key, state)
  return { uuid = uuid, key = key, state = state, was = state, lease_id = nil, lease_epoch = nil,
    lease_expires_at = nil, attempt_count = nil, ended_at = nil, sets = nil, event = nil }
end

-- A function that reads these fields of an execution, false for those without a value; nil if there
-- is no such execution.
function record.reader(names)
  local command, count = { 'HMGET', '', field.state }, #names
  for i = 1, count do command[i + 3] = field[names[i]] end
  return function(p, uuid)
    local key = p.execution .. uuid
    command[2] = key
    local values = redis.call(unpack(command))
    if not values[1] then return nil end
    local x = small_blank(uuid, key, values[1])
    for i = 1, count do x[names[i]] = values[i + 1] end
    return x
  end
end

-- Made on first use: nothing that walks a table exists while the library loads.
local long_names

local function invert()
  long_names = {}
  for name, stored in pairs(field) do long_names[stored] = name end
end

-- The whole execution; nil if there is no such execution.
function record.read(p, uuid)
  local key = p.execution .. uuid
  local flat = redis.call('HGETALL', key)
  local count = #flat
  if count == 0 then return nil end
  if not long_names then invert() end
  local names, x = long_names, blank(uuid, key)
  for i = 1, count, 2 do
    local name = names[flat[i]]
    -- A field we do not know is a newer library's business; it must not stop an older one.
    if name then x[name] = flat[i + 1] end
  end
  -- What is left of a purged execution has no state.
  if not x.state then return nil end
  x.was = x.state
  if x.grant_expires_at then x.reserved = true end
  return x
end

-- A record that does not exist yet.
function record.new(p, uuid) return small_blank(uuid, p.execution .. uuid) end

-- Assigns one field. Without a value, as of another field that a damaged record lacks, nothing.
function record.set(x, name, value)
  if value == nil then return end
  x[name] = value
  local sets = x.sets
  if sets then
    local count = #sets
    sets[count + 1], sets[count + 2] = field[name], value
  else
    x.sets = { 'HSET', x.key, field[name], value }
  end
end

-- Stores several fields at once: a whole HSET by stored names, which costs a fraction of the same
-- field by field. The caller assigns what it will read again.
function record.put(x, command)
  local sets = x.sets
  x.sets = command
  if not sets then return end
  for i = 3, #sets do command[#command + 1] = sets[i] end
end

-- Removes fields that have a value; the others cost nothing.
function record.drop(x, names)
  for i = 1, #names do
    local name = names[i]
    if x[name] then
      x.drops = x.drops or { 'HDEL', x.key }
      x.drops[#x.drops + 1] = field[name]
      x[name] = nil
    end
  end
end

-- Writes the record alone: for changes that concern no index and are no event.
function record.save(x, w)
  if x.drops then w[#w + 1] = x.drops end
  if x.sets then w[#w + 1] = x.sets end
end

return record
