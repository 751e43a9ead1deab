-- The log: the last events of a partition, bounded in number and in age.

local arg = require('kernel.arg')
local limit = require('kernel.limit')
local number = require('kernel.number')

local log = {}

local TRIM_EVERY = 64
local LENGTH_MAX = number.constant(limit.event_log_length)
local AGE_MAX_MS = limit.event_log_age_ms_max
local LOOK_EVERY_MS = limit.event_log_look_ms

-- Removes the oldest events by this rule. That it ever happened is kept: who reads from the
-- beginning must know whether that is one.
local function trim(p, rule, bound)
  if redis.call('XTRIM', p.log, rule, '~', bound) > 0 then redis.call('SET', p.trimmed, '1') end
end

-- The command that appends an event.
function log.entry(p, text) return { 'XADD', p.log, '*', 'e', text } end

-- Appends an event. Trimming costs a fifth of that, so it is done only now and then.
function log.append(p, text)
  redis.call('XADD', p.log, '*', 'e', text)
  local untrimmed = p.untrimmed + 1
  p.untrimmed = untrimmed
  if untrimmed % TRIM_EVERY == 0 then trim(p, 'MAXLEN', LENGTH_MAX) end
end

-- The id of the last event, or nil.
function log.last_id(p)
  local last = redis.call('XREVRANGE', p.log, '+', '-', 'COUNT', 1)
  return last[1] and last[1][1]
end

-- Old events go, but never the last one: its id is where readers go on.
local function trim_old(p, now)
  p.trim_at = now + LOOK_EVERY_MS
  local last = log.last_id(p)
  if not last then return end
  -- Entries are named by the store's own clock.
  local last_ms, oldest = number.stored(string.match(last, '^%d+'), 0),
    redis.call('TIME')[1] * 1000 - AGE_MAX_MS
  trim(p, 'MINID', last_ms < oldest and last or number.text(math.max(oldest, 0)))
end

-- Keeps the log within its bounds: this many events, and a certain age. Does nothing while nothing
-- was appended and nothing can have become too old.
function log.tidy(p, now, length_max)
  if p.untrimmed > 0 then
    p.untrimmed = 0
    trim(p, 'MAXLEN', length_max)
  end
  if now >= p.trim_at or now < p.trim_at - LOOK_EVERY_MS then trim_old(p, now) end
end

-- Nineteen digits always fit in the 64 bits that the store has for each part of an id. It writes
-- none with a leading zero, and not every store would read one.
local function is_part(digits)
  return #digits <= 19 and (digits == '0' or string.sub(digits, 1, 1) ~= '0')
end

-- A position as an argument: `$` is the end of the log, empty its beginning, anything else the id
-- of an entry.
function log.cursor()
  return arg.custom('cursor', function(text)
    if text == '' or text == '$' then return text end
    local ms, seq = string.match(text, '^(%d+)%-(%d+)$')
    if ms and is_part(ms) and is_part(seq) then return text end
    return nil, 'must be empty, $ or the cursor of an earlier answer'
  end)
end

-- The entries behind a position, and the position behind them.
function log.read(p, cursor, most)
  local from = cursor == '' and '-' or '(' .. cursor
  local entries = redis.call('XRANGE', p.log, from, '+', 'COUNT', most)
  return entries, #entries > 0 and entries[#entries][1] or cursor
end

-- Were events behind this position trimmed away? They were if the one it names is gone; the
-- beginning names none.
function log.truncated(p, from)
  if from == '' then return false end
  if from == '0-0' then return redis.call('GET', p.trimmed) ~= false end
  return #redis.call('XRANGE', p.log, from, from) == 0
end

return log
