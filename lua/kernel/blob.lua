-- Blobs: byte strings of any length that belong to a record. Up to four pieces of 64 bytes they
-- live inside the record, which keeps it compact and saves a key; longer ones get their own key,
-- and then the second piece alone is there as a mark.

local keys = require('kernel.keys')
local limit = require('kernel.limit')
local record = require('kernel.record')

local blob = {}

local PIECE, PIECES = limit.inline_value_bytes, 4
local MARK = '@'

-- The fields to read for a blob of this name.
function blob.fields(name) return { name, name .. '2', name .. '3', name .. '4' } end

function blob.put(x, w, name, bytes)
  local size = #bytes
  if size == 0 then return end
  if size > PIECE * PIECES then
    record.set(x, name .. '2', MARK)
    w[#w + 1] = { 'SET', keys.blob(x.key, name), bytes }
    return
  end
  record.set(x, name, string.sub(bytes, 1, PIECE))
  for i = 2, PIECES do
    local from = (i - 1) * PIECE + 1
    if from > size then return end
    record.set(x, name .. i, string.sub(bytes, from, from + PIECE - 1))
  end
end

-- The bytes, from a record whose blob fields were read.
function blob.get(x, name)
  local first = x[name]
  if first then
    return first .. (x[name .. '2'] or '') .. (x[name .. '3'] or '') .. (x[name .. '4'] or '')
  end
  return x[name .. '2'] and redis.call('GET', keys.blob(x.key, name)) or ''
end

-- Removes a blob from a record whose blob fields were read.
function blob.drop(x, w, name)
  if x[name .. '2'] and not x[name] then w[#w + 1] = { 'DEL', keys.blob(x.key, name) } end
  record.drop(x, blob.fields(name))
end

return blob
