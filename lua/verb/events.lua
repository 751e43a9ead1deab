-- Events: the partition's log, read from a cursor.

local arg = require('kernel.arg')
local define = require('kernel.define').define
local event = require('model.event')
local limit = require('kernel.limit')
local reply = require('kernel.reply')
local log = require('model.log')

-- Nineteen digits always fit in the 64 bits that the store has for each part of an id. It writes
-- none with a leading zero, and not every store would read one.
local function is_part(digits)
  return #digits <= 19 and (digits == '0' or string.sub(digits, 1, 1) ~= '0')
end

-- `$` is the end of the log, empty its beginning, anything else the id of an entry.
local function cursor()
  return arg.custom('cursor', function(text)
    if text == '' or text == '$' then return text end
    local ms, seq = string.match(text, '^(%d+)%-(%d+)$')
    if ms and is_part(ms) and is_part(seq) then return text end
    return nil, 'must be empty, $ or the cursor of an earlier answer'
  end)
end

local function row(p, entry)
  local name, uuid, attempt, epoch, instance, why = event.parse(entry[2][2])
  return { entry[1], name, p.tag .. uuid, attempt, why, epoch, instance }
end

define {
  name = 'ff_read_events',
  doc = 'Reads the event log of a partition from a cursor.',
  flags = { 'no-writes' },
  args = { cursor(), arg.int('limit', 1, limit.list_limit_max) },
  gives = { OK = { 'events', 'next_cursor', 'truncated' } },
  run = function(p, a)
    if a.cursor == '$' then return reply.ok({}, log.last_id(p) or '0-0', 0) end
    local from = a.cursor == '' and '-' or '(' .. a.cursor
    local entries = redis.call('XRANGE', p.log, from, '+', 'COUNT', a.limit)
    local rows = {}
    for i = 1, #entries do rows[i] = row(p, entries[i]) end
    local next_cursor = #entries > 0 and entries[#entries][1] or a.cursor
    return reply.ok(rows, next_cursor, log.truncated(p, a.cursor) and 1 or 0)
  end,
}

return true
