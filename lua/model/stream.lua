-- Streams: the output of attempts, frame by frame. The frames of an attempt are one stream of the
-- store, whose entries are named by their sequence numbers, from 1. What the stream of the latest
-- attempt holds stands in the record, once there are frames: `first:last:start:stop`, the numbers
-- of the first frame kept and of the last one, and at which byte of the whole output the first one
-- starts and the last one stops. Nothing is written when an attempt ends: whether a stream is
-- closed follows from the record.
--
-- An entry has two values: `h`, which is `when:start:type:correlation id`, and `p`, the bytes.

local keys = require('kernel.keys')
local limit = require('kernel.limit')
local number = require('kernel.number')
local writes = require('kernel.writes')
local due = require('model.due')
local commit = require('model.commit')
local record = require('model.record')

local stream, push = {}, writes.push

-- How much is kept of an attempt's output unless the policy says otherwise.
local DEFAULTS = {
  durable = { frames = limit.stream_frames_default, bytes = limit.stream_bytes_default },
  best_effort = { frames = limit.best_effort_frames_default,
    bytes = limit.best_effort_bytes_default },
  summary = { frames = limit.best_effort_frames_default,
    bytes = limit.best_effort_bytes_default },
}

stream.MODES = { durable = true, best_effort = true, summary = true }

-- A rule as it is used. What is kept may exceed its bounds by an eighth, so that trimming is done
-- only now and then.
local function usable(mode, frames, bytes, ttl_ms)
  return { mode = mode, frames = frames, frames_max = frames + (frames - frames % 8) / 8,
    bytes = bytes, bytes_max = bytes + (bytes - bytes % 8) / 8, ttl_ms = ttl_ms }
end

local DURABLE = usable('durable', limit.stream_frames_default, limit.stream_bytes_default)

-- A stream policy as one short text: `mode:frames:bytes:ttl in ms, or nothing`.
function stream.pack_rule(rule)
  local default = DEFAULTS[rule.mode]
  return table.concat({ rule.mode, number.text(rule.frames or default.frames),
    number.text(rule.bytes or default.bytes), rule.ttl_ms and number.text(rule.ttl_ms) or '' }, ':')
end

-- What the policy says about the streams of an execution. What is not readable is the default.
function stream.rule(x)
  if not x.stream_rule then return DURABLE end
  local mode, frames, bytes, ttl_ms =
    string.match(x.stream_rule, '^([%l_]+):(%d+):(%d+):(%d*)$')
  if not stream.MODES[mode] then return DURABLE end
  return usable(mode, tonumber(frames), tonumber(bytes), tonumber(ttl_ms))
end

-- What the latest attempt's stream holds; nil if it has no frames or that cannot be read. Its last
-- frame is a number; the rest are digits, which most appends write again as they are.
function stream.held(x)
  if not x.frames then return nil end
  local first, last, start, stop = string.match(x.frames, '^(%d+):(%d+):(%d+):(%d+)$')
  if not first then return nil end
  return { first = first, last = last + 0, start = start, stop = stop }
end

local EMPTY = { first = '1', last = 0, start = '0', stop = '0' }

local function hold(x, first, last, start, stop)
  record.set(x, 'frames', first .. ':' .. last .. ':' .. start .. ':' .. stop)
end

-- The index of the latest attempt.
local function latest(x) return number.stored(x.attempt_count, 1) - 1 end

-- The sequence number that the next frame of the latest attempt has.
function stream.next_sequence(x)
  if not x.frames then return 1 end
  local held = stream.held(x)
  return held and held.last + 1 or 1
end

-- At which byte of the whole output a stored frame starts; nil if the frame is gone.
local function start_of(key, sequence)
  local entry = redis.call('XRANGE', key, sequence, sequence)[1]
  return entry and number.stored(string.match(entry[2][2], '^%d+:(%d+):'), nil)
end

-- Where the frames start that are about to be stored, the last of which has this number and stops
-- here.
local function new_starts(frames, from, last, stop)
  local starts = {}
  for i = #frames, from * 3, -3 do
    stop = stop - #frames[i]
    starts[last], last = stop, last - 1
  end
  return starts
end

-- The first frame from this one on of which no more than so many bytes are kept, and where it
-- starts. A frame that is gone counts as too old.
local function cut(key, low, high, starts, stop, bytes)
  while low < high do
    local middle = math.floor((low + high) / 2)
    local start = starts[middle] or start_of(key, middle)
    if start and stop - start <= bytes then high = middle else low = middle + 1 end
  end
  return low, starts[low] or start_of(key, low) or stop
end

-- Appends frames to the latest attempt's stream, which holds `held`, if anything: all from this one
-- on. The frames are one flat list: when each was made, its type and correlation id, its bytes.
function stream.append(w, x, index, held, rule, frames, from)
  held = held or EMPTY
  local key = keys.frames(x.key, index)
  local first, last, start, stop = held.first, held.last, held.start, held.stop
  for i = from * 3, #frames, 3 do
    local bytes = frames[i]
    last = last + 1
    w[#w + 1] = { 'XADD', key, last .. '-0', 'h', frames[i - 2] .. ':' .. stop .. ':'
      .. frames[i - 1], 'p', bytes }
    stop = stop + #bytes
  end
  if last - first >= rule.frames_max or stop - start > rule.bytes_max then
    first, start = cut(key, math.max(first + 0, last - rule.frames + 1), last,
      new_starts(frames, from, last, stop), stop, rule.bytes)
    w[#w + 1] = { 'XTRIM', key, 'MINID', first }
  end
  last = last .. ''
  hold(x, first, last, start, stop)
  commit(w, x)
  push(w, w.p.frames_channel .. x.uuid, index .. ':' .. last)
end

-- Is there a stream that the record does not know of? Somebody wrote around the library.
function stream.unknown(x, index)
  return redis.call('EXISTS', keys.frames(x.key, index)) == 1
end

-- What stands for a stream in `due`.
local TIMER = 's:'

local function timer(x, index) return TIMER .. x.uuid .. ':' .. index end

-- The latest attempt is over, or the whole execution: those who read along are told, and if the
-- policy limits how long output is kept, its time begins.
function stream.close(w, x, now)
  local p, index, held = w.p, latest(x), stream.held(x)
  push(w, p.frames_channel .. x.uuid, index .. ':' .. (held and held.last or 0) .. ':closed')
  if not held or held.first + 0 > held.last then return end
  local rule = stream.rule(record.read(p, x.uuid))
  if not rule.ttl_ms then return end
  local at = now + rule.ttl_ms
  w[#w + 1] = { 'ZADD', p.due, 'NX', at, timer(x, index) }
  writes.due(w, at)
end

-- Removes the streams of the attempts from `low` to `high`: in no time, however much they hold.
-- Gives how many that may have been.
local function remove(w, x, low, high)
  local command, timers = { 'UNLINK' }, { 'ZREM', w.p.due }
  for index = low, high do
    command[#command + 1] = keys.frames(x.key, index)
    command[#command + 1] = keys.document(x.key, index)
    timers[#timers + 1] = timer(x, index)
  end
  w[#w + 1] = command
  if stream.rule(x).ttl_ms then w[#w + 1] = timers end
  return high - low + 1
end

-- Makes room for the output of a new attempt, and tells those who read along of it. That of the
-- last few is kept, to see what became of them.
function stream.put_away(w, x)
  local index = latest(x)
  push(w, w.p.frames_channel .. x.uuid, number.text(index + 1) .. ':0')
  if x.frames and not x.kept_from then record.set(x, 'kept_from', index) end
  local from = number.stored(x.kept_from, nil)
  if from and index - from >= limit.streams_kept_max then
    remove(w, x, from, from)
    record.set(x, 'kept_from', from + 1)
  end
  record.drop(x, { 'frames' })
end

-- Removes all streams of an execution. Gives how many that may have been: no more than are ever
-- kept.
function stream.purge(w, x)
  if not x.frames and not x.kept_from then return 0 end
  local index = latest(x)
  local low = math.max(number.stored(x.kept_from, index), index - limit.streams_kept_max)
  return remove(w, x, math.min(low, index), index)
end

-- An attempt's output is gone: the record says so.
local function forget(w, x, index)
  local held = stream.held(x)
  if index == latest(x) then
    if held then hold(x, held.last + 1, held.last, held.stop, held.stop) end
  elseif index == number.stored(x.kept_from, nil) then
    record.drop(x, { 'kept_from' })
    if index + 1 < latest(x) then record.set(x, 'kept_from', index + 1) end
  end
  commit(w, x)
end

-- The time of an attempt's output is over.
due.on[TIMER] = function(w, p, member)
  local uuid, digits = string.match(member, '^' .. TIMER .. '([^:]+):(%d+)$')
  w[#w + 1] = { 'ZREM', p.due, member }
  if not uuid then return 'forgotten' end
  local x, index = record.read(p, uuid), tonumber(digits)
  remove(w, x or { uuid = uuid, key = p.execution .. uuid }, index, index)
  if x then forget(w, x, index) end
  return 'forgotten'
end

return stream
