-- Events: the partition's log, read from a cursor.

local arg = require('kernel.arg')
local define = require('kernel.define').define
local event = require('model.event')
local limit = require('kernel.limit')
local reply = require('kernel.reply')
local log = require('model.log')

local function row(p, entry)
  local name, uuid, attempt, epoch, instance, why = event.parse(entry[2][2])
  return { entry[1], name, p.tag .. uuid, attempt, why, epoch, instance }
end

define {
  name = 'ff_read_events',
  doc = 'Reads the event log of a partition from a cursor.',
  flags = { 'no-writes' },
  args = { log.cursor(), arg.int('limit', 1, limit.list_limit_max) },
  gives = { OK = { 'events', 'next_cursor', 'truncated' } },
  run = function(p, a)
    if a.cursor == '$' then return reply.ok({}, log.last_id(p) or '0-0', 0) end
    local entries, next_cursor = log.read(p, a.cursor, a.limit)
    local rows = {}
    for i = 1, #entries do rows[i] = row(p, entries[i]) end
    return reply.ok(rows, next_cursor, log.truncated(p, a.cursor) and 1 or 0)
  end,
}

return true
