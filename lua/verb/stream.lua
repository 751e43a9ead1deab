-- Streams: the holder writes its attempt's output, anybody reads it.

local arg = require('kernel.arg')
local define = require('kernel.define').define
local keys = require('kernel.keys')
local limit = require('kernel.limit')
local number = require('kernel.number')
local reply = require('kernel.reply')
local attempt = require('model.attempt')
local lease = require('model.lease')
local patch = require('model.patch')
local record = require('model.record')
local state = require('model.state')
local stream = require('model.stream')

-- A sequence number as an argument. Hardly one comes twice, so none is remembered.
local function sequence(name, low)
  local high = limit.frame_sequence_max
  local rule = 'must be a whole number from ' .. low .. ' to ' .. high
  return arg.custom(name, function(text)
    local value = number.parse(text)
    if not value or value < low or value > high then return nil, rule end
    return value
  end)
end

-- A frame as arguments: type, correlation id, how long ago it was made in ms, bytes.
local WIDTH = 4
local frame_type = arg.label('type', limit.frame_type_bytes_max)
local age_ms = arg.optional(arg.int('age_ms', 0, limit.frame_age_ms_max), 0)

local function parsed(spec, text)
  local value = spec.known[text]
  if value ~= nil then return value end
  return spec.parse(text)
end

local TYPES = frame_type.known
local CORRELATION_MAX, FRAME_MAX = limit.correlation_id_bytes_max, limit.frame_bytes_max

local function invalid(place, what)
  return reply.refuse('invalid_input', 'frame ' .. place .. ' ' .. what)
end

-- nil if the frame whose arguments begin at `i` is as it should be, otherwise the refusal.
local function wrong_frame(parts, i)
  local place = (i - 1) / WIDTH + 1
  local _, wrong = parsed(frame_type, parts[i])
  if wrong then
    return reply.refuse('invalid_frame_type', 'frame ' .. place .. ': type ' .. wrong)
  end
  _, wrong = parsed(age_ms, parts[i + 2])
  if wrong then return invalid(place, 'age_ms ' .. wrong) end
  if #parts[i + 1] > CORRELATION_MAX then
    return invalid(place, 'correlation_id must be at most ' .. CORRELATION_MAX .. ' bytes')
  end
  if not arg.is_utf8(parts[i + 1]) then return invalid(place, 'correlation_id must be UTF-8') end
  if #parts[i + 3] > FRAME_MAX then return reply.refuse('frame_too_large', place, FRAME_MAX) end
  return nil
end

-- When a frame was made, as text.
local function made_at(now, ago)
  return number.text(math.max(now - parsed(age_ms, ago), 0))
end

local function too_much(bytes_max)
  return reply.refuse('payload_too_large', 'frames must have at most ' .. bytes_max
    .. ' bytes together')
end

-- The frames of a call as model/stream.lua takes them, and how many bytes they have; or nil and a
-- refusal.
local function read_frames(parts, now)
  if #parts % WIDTH ~= 0 then
    return nil, reply.refuse('invalid_input', 'frames must come in groups of ' .. WIDTH)
  end
  local frames, count, bytes, now_text = { nil, nil, nil, nil }, 0, 0, number.text(now)
  for i = 1, #parts, WIDTH do
    local ago, payload = parts[i + 2], parts[i + 3]
    -- Most frames are of a type that was seen before, and were made just now.
    if not TYPES[parts[i]] or ago ~= '' or parts[i + 1] ~= '' or #payload > FRAME_MAX then
      local refusal = wrong_frame(parts, i)
      if refusal then return nil, refusal end
    end
    frames[count + 1] = ago == '' and now_text or made_at(now, ago)
    frames[count + 2], frames[count + 3] = parts[i] .. ':' .. parts[i + 1], payload
    count, bytes = count + 3, bytes + #payload
  end
  if bytes > limit.append_bytes_max then return nil, too_much(limit.append_bytes_max) end
  return frames, bytes
end

local REASONS = {
  ended_success = 'attempt_success', ended_failure = 'attempt_failure',
  ended_cancelled = 'attempt_cancelled', interrupted_reclaimed = 'attempt_interrupted',
}

-- Why nothing can be written any more by the latest attempt; nil if something can.
local function closed(x) return x.attempt_count and REASONS[attempt.lifecycle(x)] end

local STALE = { lease_revoked = true, lease_expired = true, stale_lease = true }

-- nil if the caller may write, otherwise the refusal. A paused attempt goes on, but not by this
-- caller.
local function guard(p, x, a, now)
  local refusal = lease.guard(x, a, now)
  if not refusal then return nil end
  local code = reply.word(refusal)
  if STALE[code] then return reply.refuse('stale_owner_cannot_append', code) end
  if code ~= 'execution_not_active' then return refusal end
  local reason = closed(record.read(p, x.uuid))
  if reason then return reply.refuse('stream_closed', reason) end
  return reply.refuse('stale_owner_cannot_append', 'stale_lease')
end

-- nil if the stream keeps frames of this size, otherwise the refusal.
local function too_large(rule, frames, from)
  if rule.bytes >= FRAME_MAX then return nil end
  for i = from * 3, #frames, 3 do
    if #frames[i] > rule.bytes then
      return reply.refuse('retention_limit_exceeded', 'frame', rule.bytes)
    end
  end
  return nil
end

-- Applies frames to the document that sums the attempt's output up; nil, or the refusal.
local function sum_up(w, x, index, held, frames, from, bytes)
  if bytes > limit.summary_bytes_max then return too_much(limit.summary_bytes_max) end
  local key, texts = keys.document(x.key, index), {}
  local document, lost = '', reply.refuse('data_lost', 'summary')
  if held then document = redis.call('GET', key) end
  if not document then return lost end
  for i = 1, #frames / 3 do texts[i] = frames[i * 3] end
  local summary, wrong, place = patch.apply(document, texts, from)
  if place == 0 then return lost end
  if wrong then
    return reply.refuse('invalid_input', 'frame ' .. place .. ' is not JSON: ' .. wrong)
  end
  if #summary > limit.summary_bytes_max then
    return reply.refuse('retention_limit_exceeded', 'summary', limit.summary_bytes_max)
  end
  w[#w + 1] = { 'SET', key, summary }
  return nil
end

local read_for_append = record.reader { 'lease_id', 'lease_epoch', 'attempt_id',
  'lease_expires_at', 'attempt_count', 'frames', 'stream_rule' }

-- Adds those of the frames that are new. `skip` of them are there already.
local function add(w, x, held, frames, bytes, skip)
  local index, rule = attempt.index(x), stream.rule(x)
  if not held and stream.unknown(x, index) then return reply.refuse('data_lost', 'frames') end
  local refusal = too_large(rule, frames, skip + 1)
  if not refusal and rule.mode == 'summary' then
    refusal = sum_up(w, x, index, held, frames, skip + 1, bytes)
  end
  if refusal then return refusal end
  stream.append(w, x, index, held, rule, frames, skip + 1)
  return nil
end

define {
  name = 'ff_append_frame',
  doc = 'Appends frames to the output of the running attempt; what is there is not doubled.',
  flags = {},
  args = lease.args {
    sequence('first_sequence', 1),
    arg.rest(arg.custom('frames', function(text) return text end), WIDTH,
      WIDTH * limit.append_frames_max),
  },
  gives = {
    OK = { 'last_sequence' },
    DUPLICATE = { 'last_sequence' },
    execution_not_found = {},
    fence_required = {},
    partial_fence_triple = {},
    stale_owner_cannot_append = { 'reason' },
    stream_closed = { 'reason' },
    frame_gap = { 'expected_sequence' },
    invalid_frame_type = { 'text' },
    frame_too_large = { 'place', 'bytes_max' },
    retention_limit_exceeded = { 'what', 'bytes_max' },
    data_lost = { 'what' },
  },
  run = function(p, a, now, w)
    local frames, more = read_frames(a.frames, now)
    if not frames then return more end
    local x = read_for_append(p, a.execution_id)
    if not x then return reply.refuse('execution_not_found') end
    local held, last = stream.held(x), a.first_sequence + #frames / 3 - 1
    local there = held and held.last or 0
    -- What this lease wrote before is there, whatever became of the lease since.
    if last <= there and lease.matches(x, a) then return reply.duplicate(last) end
    local refusal = guard(p, x, a, now)
    if refusal then return refusal end
    local skip = there + 1 - a.first_sequence
    if skip < 0 then return reply.refuse('frame_gap', there + 1) end
    return add(w, x, held, frames, more, skip) or reply.ok(last)
  end,
}

-- The sequence numbers of the first frame that a stream still holds and of its last one.
local function stored_bounds(key)
  local first = redis.call('XRANGE', key, '-', '+', 'COUNT', 1)[1]
  if not first then return 1, 0 end
  local last = redis.call('XREVRANGE', key, '+', '-', 'COUNT', 1)[1]
  return number.stored(string.match(first[1], '^%d+'), 1),
    number.stored(string.match(last[1], '^%d+'), 0)
end

-- What there is of an attempt: first and last frame, and when and why its stream was closed.
local function latest_stream(x)
  local held, reason = stream.held(x), closed(x)
  return held and held.first + 0 or 1, held and held.last or 0,
    reason and attempt.ended_at(x) or '', reason or ''
end

local function past_stream(x, index, latest)
  local first, last = stored_bounds(keys.frames(x.key, index))
  local line = redis.call('LRANGE', keys.attempts(x.key), index - latest, index - latest)[1]
  local lifecycle, ended_at = attempt.end_of(line or '')
  return first, last, ended_at, REASONS[lifecycle] or 'attempt_interrupted'
end

-- Entries that are read from the store at a time: bounds what is read in vain.
local PAGE = 64
-- Where the two values of an entry are: each stands behind its name (model/stream.lua).
local HEADER, PAYLOAD = 2, 4

-- Reads frames into rows, as many as fit. Gives the sequence number to go on with.
local function read_rows(rows, key, from, to, count_max, bytes_max)
  local count, bytes = 0, 0
  while from <= to do
    local step = math.min(PAGE, count_max - count)
    local entries = redis.call('XRANGE', key, from, to, 'COUNT', step)
    for i = 1, #entries do
      local id, values = entries[i][1], entries[i][2]
      local header, payload = values[HEADER], values[PAYLOAD]
      count, bytes = count + 1, bytes + #payload
      if bytes > bytes_max and count > 1 then return from end
      rows[#rows + 1], rows[#rows + 2], rows[#rows + 3] = id, header, payload
      from = string.match(id, '^%d+') + 1
    end
    if #entries < step then return to + 1 end
    if count >= count_max then return from end
  end
  return from
end

-- Readers that come too late for the patches, or want to see it all, get what they sum up to.
local function summary(x, index, a, first, last)
  if a.to_sequence or last == 0 or a.from_sequence > 1 and a.from_sequence >= first then
    return nil
  end
  if stream.rule(x).mode ~= 'summary' then return nil end
  return redis.call('GET', keys.document(x.key, index)) or nil
end

local read_for_read = record.reader { 'attempt_count', 'attempt_end', 'attempt_ended_at',
  'ended_at', 'frames', 'stream_rule' }

define {
  name = 'ff_read_attempt_stream',
  doc = 'Reads the output of an attempt, of the latest one unless another is named.',
  flags = { 'no-writes' },
  args = {
    arg.execution('execution_id'),
    arg.optional(arg.int('attempt_index', 0, limit.attempt_index_max)),
    sequence('from_sequence', 0),
    arg.optional(sequence('to_sequence', 0)),
    arg.int('count_limit', 1, limit.stream_read_hard_cap),
    arg.optional(arg.int('bytes_max', 1, limit.stream_read_bytes_max),
      limit.stream_read_bytes_max),
  },
  gives = {
    OK = { 'attempt_index', 'frames', 'next_sequence', 'first_sequence', 'last_sequence',
      'closed_at', 'closed_reason', 'latest_attempt', 'execution_ended', 'summary' },
    execution_not_found = {},
  },
  run = function(p, a)
    local x = read_for_read(p, a.execution_id)
    if not x then return reply.refuse('execution_not_found') end
    local latest = x.attempt_count and attempt.index(x) or ''
    local index, rows = a.attempt_index or latest ~= '' and latest or 0, { 3 }
    local first, last, closed_at, reason = 1, 0, '', ''
    if index == latest then
      first, last, closed_at, reason = latest_stream(x)
    elseif latest ~= '' and index < latest then
      first, last, closed_at, reason = past_stream(x, index, latest)
    end
    local text = summary(x, index, a, first, last)
    local next_sequence = text and last + 1 or read_rows(rows, keys.frames(x.key, index),
      math.max(a.from_sequence, first), math.min(a.to_sequence or last, last), a.count_limit,
      a.bytes_max)
    return reply.ok(index, rows, next_sequence, first, last, closed_at, reason, latest,
      state.ENDED[x.state] and 1 or 0, text or '')
  end,
}

return true
