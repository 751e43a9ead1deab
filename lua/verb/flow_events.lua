-- Flow events: what happened in one flow, read from the partition's log.

local arg = require('kernel.arg')
local define = require('kernel.define').define
local event = require('model.event')
local flow = require('model.flow')
local limit = require('kernel.limit')
local log = require('model.log')
local record = require('model.record')
local reply = require('kernel.reply')

local EVENT = { 'cursor', 'name', 'execution_id', 'member', 'attempt_index', 'why',
  'worker_instance_id' }

local read_member = record.reader { 'flow_id', 'member_name' }

-- The member of the flow that an event tells of; nil if it tells of somebody else. `seen` has those
-- that were looked at before: one that is gone would be looked for again.
local function member_of(p, seen, id, uuid)
  local x = seen[uuid]
  if x == nil then
    x = read_member(p, uuid) or false
    seen[uuid] = x
  end
  return x and x.flow_id == id and x or nil
end

-- The row of an entry; nil if it tells of something else.
local function row(p, seen, id, entry)
  local name, uuid, attempt, _, instance, why = event.parse(entry[2][2])
  if uuid == id then return reply.row(EVENT, { entry[1], name, '', '', '', why, '' }) end
  local x = uuid and member_of(p, seen, id, uuid)
  if not x then return nil end
  return reply.row(EVENT, { entry[1], name, p.tag .. uuid, x.member_name, attempt, why, instance })
end

-- The place of the first event of a flow among some entries; one behind them if it is not there.
local function first(entries, id)
  local text = event.flow_text({ id = id }, 'flow_created')
  for i = 1, #entries do
    if string.sub(entries[i][2][2], 1, #text) == text then return i end
  end
  return #entries + 1
end

define {
  name = 'ff_read_flow_events',
  doc = 'Looks for the events of a flow and its members in the log, from a cursor on.',
  flags = { 'no-writes' },
  args = {
    arg.uuid('flow_id'),
    log.cursor(),
    arg.int('limit', 1, limit.list_limit_max),
    -- Passes over everything before the first event of the flow.
    arg.optional(arg.int('seek', 0, 1), 0),
  },
  gives = {
    OK = { 'events', 'next_cursor', 'truncated', 'more', 'ended', 'found' },
    flow_not_found = {},
  },
  run = function(p, a)
    local f = flow.read(p, a.flow_id)
    if not f then return reply.refuse('flow_not_found') end
    local ended = f.ended_at and 1 or 0
    if a.cursor == '$' then return reply.ok({}, log.last_id(p) or '0-0', 0, 0, ended, 1) end
    local entries, next_cursor = log.read(p, a.cursor, a.limit)
    local from, rows, seen = 1, {}, {}
    if a.seek == 1 then from = first(entries, f.id) end
    local found = a.seek == 0 or from <= #entries
    for i = from, #entries do rows[#rows + 1] = row(p, seen, f.id, entries[i]) end
    return reply.ok(rows, next_cursor, log.truncated(p, a.cursor) and 1 or 0,
      #entries == a.limit and 1 or 0, ended, found and 1 or 0)
  end,
}

return true
