-- Workers: what the registry knows of a connected process. Each is kept in one partition, which
-- follows from its instance id, and vanishes by a timer unless it is heard of again.
--
--   session:worker_id:registered_at:expires_at:capabilities
--   a lane on each further line
--   an empty line, if there is more to tell
--   running:capacity:heard_at:process
--   a kind on each further line
--   an empty line, if it takes from some namespaces only
--   a namespace on each further line
--
-- No label contains a colon, and neither capabilities nor labels contain a line's end.

local number = require('kernel.number')
local writes = require('kernel.writes')
local due = require('model.due')

local worker = {}

-- The beginning of a registration's name in the index of times.
local TIMER = 'w:'

local function pack(entry)
  local head = table.concat({ entry.session, entry.worker_id, number.text(entry.registered_at),
    number.text(entry.expires_at), entry.capabilities .. '\n' .. entry.lanes }, ':')
  if not entry.heard_at then return head end
  local namespaces = entry.namespaces ~= '' and '\n\n' .. entry.namespaces or ''
  -- Without lanes the first line's end is there already.
  return head .. (entry.lanes == '' and '\n' or '\n\n') .. table.concat({ entry.running,
    entry.capacity, number.text(entry.heard_at), entry.process .. '\n' .. entry.kinds }, ':')
    .. namespaces
end

-- The part before the empty line, and the one behind it, if there is one.
local function split(text)
  local at = string.find(text, '\n\n', 1, true)
  if not at then return text, nil end
  return string.sub(text, 1, at - 1), string.sub(text, at + 2)
end

local function unpack_load(entry, text)
  local running, capacity, heard_at, process, kinds =
    string.match(text, '^(%d*):(%d*):(%d+):([^\n]*)\n(.*)$')
  if not running then return end
  entry.running, entry.capacity, entry.heard_at = running, capacity, tonumber(heard_at)
  entry.process = process
  entry.kinds, entry.namespaces = split(kinds)
  entry.namespaces = entry.namespaces or ''
end

local function unpack_entry(text)
  local head, rest = split(text)
  local session, id, registered_at, expires_at, capabilities, lanes =
    string.match(head, '^([^:]*):([^:]*):(%d+):(%d+):([^\n]*)\n?(.*)$')
  if not session then return nil end
  local entry = { session = session, worker_id = id, registered_at = tonumber(registered_at),
    expires_at = tonumber(expires_at), capabilities = capabilities, lanes = lanes, running = '',
    capacity = '', process = '', kinds = '', namespaces = '' }
  if rest then unpack_load(entry, rest) end
  return entry
end

-- The entry of an instance while its registration lasts.
function worker.live(p, instance_id, now)
  local text = redis.call('HGET', p.workers, instance_id)
  local entry = text and unpack_entry(text)
  return entry and entry.expires_at > now and entry or nil
end

-- All that are registered in a partition: instance ids, and entries by them.
function worker.all(p, now)
  local flat, names, entries = redis.call('HGETALL', p.workers), {}, {}
  for i = 1, #flat, 2 do
    local entry = unpack_entry(flat[i + 1])
    if entry and entry.expires_at > now then
      names[#names + 1], entries[flat[i]] = flat[i], entry
    end
  end
  table.sort(names)
  return names, entries
end

function worker.put(w, p, instance_id, entry)
  w[#w + 1] = { 'HSET', p.workers, instance_id, pack(entry) }
  w[#w + 1] = { 'ZADD', p.due, entry.expires_at, TIMER .. instance_id }
  writes.due(w, entry.expires_at)
end

function worker.forget(w, p, instance_id)
  w[#w + 1] = { 'HDEL', p.workers, instance_id }
  w[#w + 1] = { 'ZREM', p.due, TIMER .. instance_id }
end

-- A worker that was not heard of in time.
due.on[TIMER] = function(w, p, member)
  worker.forget(w, p, string.sub(member, #TIMER + 1))
  return 'forgotten'
end

return worker
