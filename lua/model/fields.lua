-- Fields: a hash that is read whole, changed field by field while a call decides, and written once.
-- What was changed last counts, whatever came before.

local number = require('kernel.number')

local fields = {}

function fields.read(key)
  local flat, stored = redis.call('HGETALL', key), {}
  for i = 1, #flat, 2 do stored[flat[i]] = flat[i + 1] end
  return { key = key, stored = stored, count = #flat / 2 }
end

-- Writes what changed: what is gone first.
local function write(_, f)
  local gone, sets, changed = { 'HDEL', f.key }, { 'HSET', f.key }, f.changed
  f.changed = nil
  for i = 1, #changed do
    local name = changed[i]
    local value = f.stored[name]
    if value then
      sets[#sets + 1], sets[#sets + 2] = name, value
    else
      gone[#gone + 1] = name
    end
  end
  if gone[3] then redis.call(unpack(gone)) end
  if sets[3] then redis.call(unpack(sets)) end
end

-- Assigns a field; without a value it is removed.
function fields.set(w, f, name, value)
  if type(value) == 'number' then value = number.text(value) end
  if f.stored[name] == value then return end
  if not f.changed then
    f.changed, f.write = {}, write
    w[#w + 1] = f
  end
  if not f.changed[name] then
    f.changed[name], f.changed[#f.changed + 1] = true, name
  end
  f.stored[name] = value
end

-- A number; 0 if there is none.
function fields.number(f, name) return number.stored(f.stored[name], 0) end

function fields.add(w, f, name, more) fields.set(w, f, name, fields.number(f, name) + more) end

-- The names behind a prefix of a letter or word and a colon, in their order.
function fields.behind(f, prefix)
  local names = {}
  for field in pairs(f.stored) do
    if string.sub(field, 1, #prefix) == prefix then
      names[#names + 1] = string.sub(field, #prefix + 1)
    end
  end
  table.sort(names)
  return names
end

return fields
