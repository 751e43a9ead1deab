-- Blobs: byte strings of any length that belong to a record. Up to four pieces of 64 bytes they
-- live inside the record, which keeps it compact and saves a key; longer ones get their own key,
-- and then the second piece alone is there as a mark.

local keys = require('kernel.keys')
local limit = require('kernel.limit')
local record = require('model.record')

local blob = {}

local PIECE = limit.inline_value_bytes
local MARK = '@'

-- The names of the pieces of each blob.
local PIECES = {
  payload = { 'payload', 'payload2', 'payload3', 'payload4' },
  result = { 'result', 'result2', 'result3', 'result4' },
  policy = { 'policy', 'policy2', 'policy3', 'policy4' },
  detail = { 'detail', 'detail2', 'detail3', 'detail4' },
  idempotency = { 'idempotency', 'idempotency2', 'idempotency3', 'idempotency4' },
  throttle = { 'throttle', 'throttle2', 'throttle3', 'throttle4' },
}

function blob.put(x, w, name, bytes)
  local size = #bytes
  if size == 0 then return end
  local pieces = PIECES[name]
  if size <= PIECE then
    record.set(x, name, bytes)
  elseif size > PIECE * #pieces then
    record.set(x, pieces[2], MARK)
    w[#w + 1] = { 'SET', keys.blob(x.key, name), bytes }
  else
    local count = 0
    for last = PIECE, size + PIECE - 1, PIECE do
      count = count + 1
      record.set(x, pieces[count], string.sub(bytes, last - PIECE + 1, last))
    end
  end
end

-- The bytes, from a record that was read whole; nil if their key is gone: somebody removed it.
function blob.get(x, name)
  local pieces, first = PIECES[name], x[name]
  local second = x[pieces[2]]
  if first then
    if not second then return first end
    return first .. second .. (x[pieces[3]] or '') .. (x[pieces[4]] or '')
  end
  if not second then return '' end
  return redis.call('GET', keys.blob(x.key, name)) or nil
end

-- How many bytes there are, without reading them where they are many.
function blob.size(x, name)
  if x[name] or not x[PIECES[name][2]] then return #blob.get(x, name) end
  return redis.call('STRLEN', keys.blob(x.key, name))
end

-- Is a blob's key gone, although the record says that there is one?
function blob.lost(x, name)
  if x[name] or not x[PIECES[name][2]] then return false end
  return redis.call('EXISTS', keys.blob(x.key, name)) == 0
end

-- Removes a blob from a record that was read whole.
function blob.drop(x, w, name)
  if x[PIECES[name][2]] and not x[name] then w[#w + 1] = { 'DEL', keys.blob(x.key, name) } end
  record.drop(x, PIECES[name])
end

return blob
