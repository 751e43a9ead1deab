-- Records: an execution as a table. Reading takes the fields a function needs, by name; `set` and
-- `drop` change the table and remember the change; `save` turns what changed into writes.

local field = require('model.field')
local keys = require('kernel.keys')

local record = {}

-- A function that reads these fields of an execution; nil if there is no such execution.
function record.reader(names)
  local command, count = { 'HMGET', '', field.state }, #names
  for i = 1, count do command[i + 3] = field[names[i]] or names[i] end
  return function(p, uuid)
    local key = keys.execution(p, uuid)
    command[2] = key
    local values = redis.call(unpack(command))
    if not values[1] then return nil end
    local x = { uuid = uuid, key = key, state = values[1] }
    for i = 1, count do
      local value = values[i + 1]
      if value then x[names[i]] = value end
    end
    return x
  end
end

local long_names

-- Made on first use: nothing that walks a table exists while the library loads.
local function long_name(short)
  if not long_names then
    long_names = {}
    for name, stored in pairs(field) do long_names[stored] = name end
  end
  return long_names[short] or short
end

-- The whole execution; nil if there is no such execution.
function record.read(p, uuid)
  local key = keys.execution(p, uuid)
  local flat = redis.call('HGETALL', key)
  if #flat == 0 then return nil end
  local x = { uuid = uuid, key = key }
  for i = 1, #flat, 2 do x[long_name(flat[i])] = flat[i + 1] end
  return x
end

-- A record that does not exist yet.
function record.new(p, uuid) return { uuid = uuid, key = keys.execution(p, uuid) } end

function record.set(x, name, value)
  local sets = x.sets
  if not sets then
    sets = { 'HSET', x.key }
    x.sets = sets
  end
  local n = #sets
  sets[n + 1], sets[n + 2] = field[name] or name, value
  x[name] = value
end

-- Removes fields that have a value; the others cost nothing.
function record.drop(x, names)
  for i = 1, #names do
    local name = names[i]
    if x[name] then
      x.drops = x.drops or { 'HDEL', x.key }
      x.drops[#x.drops + 1] = field[name] or name
      x[name] = nil
    end
  end
end

function record.save(x, w)
  if x.drops then w[#w + 1] = x.drops end
  if x.sets then w[#w + 1] = x.sets end
  x.sets, x.drops = nil, nil
end

return record
