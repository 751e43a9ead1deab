-- Records: an execution as a table. Reading takes the fields a function needs, by name. A function
-- that assigns fields says so with `touch`, and removes fields with `drop`; `save` turns that into
-- writes.

local field = require('model.field')

local record = {}

-- Empty records. Naming the fields that most functions use gives the table its size at once;
-- growing it field by field costs more than all the rest of a read.
local function blank(uuid, key)
  return { uuid = uuid, key = key, state = nil, lane = nil, kind = nil, namespace = nil,
    created_at = nil, payload = nil, lease_id = nil, lease_epoch = nil, lease_expires_at = nil,
    worker_id = nil, worker_instance_id = nil, attempt_count = nil, attempt_started_at = nil,
    ended_at = nil, touched = nil }
end

local function small_blank(uuid, key, state)
  return { uuid = uuid, key = key, state = state, lease_id = nil, lease_epoch = nil,
    lease_expires_at = nil, attempt_count = nil, ended_at = nil, touched = nil }
end

-- A function that reads these fields of an execution; nil if there is no such execution.
function record.reader(names)
  local command, count = { 'HMGET', '', field.state }, #names
  for i = 1, count do command[i + 3] = field[names[i]] end
  return function(p, uuid)
    local key = p.execution .. uuid
    command[2] = key
    local values = redis.call(unpack(command))
    if not values[1] then return nil end
    local x = small_blank(uuid, key, values[1])
    for i = 1, count do
      local value = values[i + 1]
      if value then x[names[i]] = value end
    end
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
  return x
end

-- A record that does not exist yet.
function record.new(p, uuid) return blank(uuid, p.execution .. uuid) end

-- A set of fields that are assigned together, for `touch`.
function record.group(names)
  local group = {}
  for i = 1, #names do
    group[2 * i - 1] = names[i]
    group[2 * i] = field[names[i]]
  end
  return group
end

-- Notes that the fields of a group were assigned.
function record.touch(x, group)
  local touched = x.touched
  if touched then
    touched[#touched + 1] = group
  else
    x.touched = { group }
  end
end

-- Assigns one field and notes it.
function record.set(x, name, value)
  x[name] = value
  record.touch(x, { name, field[name] })
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

-- Turns what was noted into writes. A touched field without a value is left alone.
function record.save(x, w)
  if x.drops then w[#w + 1] = x.drops end
  if not x.touched then
    x.drops = nil
    return
  end
  local command, n, touched = { 'HSET', x.key, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil,
    nil, nil, nil, nil, nil, nil }, 2, x.touched
  for g = 1, #touched do
    local group = touched[g]
    for i = 1, #group, 2 do
      local value = x[group[i]]
      if value then
        command[n + 1] = group[i + 1]
        command[n + 2] = value
        n = n + 2
      end
    end
  end
  w[#w + 1] = command
  x.touched, x.drops = nil, nil
end

return record
