-- Waits: what is suspended in a partition, longest first.

local arg = require('kernel.arg')
local define = require('kernel.define').define
local limit = require('kernel.limit')
local reply = require('kernel.reply')
local page = require('model.page')
local record = require('model.record')
local waitpoint = require('model.waitpoint')

local read = record.reader { 'lane', 'kind', 'namespace', 'waitpoint_id', 'suspend_reason',
  'suspend_until', 'transition_at' }

local ROW = { 'execution_id', 'namespace', 'lane', 'kind', 'suspended_at', 'reason', 'timeout_at',
  'behavior', 'waitpoint_id', 'waitpoint_key', 'requested_by', 'signal_count' }

local function row(p, uuid)
  local x = read(p, uuid)
  if not x or x.state ~= 'suspended' then return nil end
  local one = waitpoint.latest(p, x) or {}
  return reply.row(ROW, { p.tag .. uuid, x.namespace, x.lane, x.kind, x.transition_at,
    x.suspend_reason, x.suspend_until, one.behavior, x.waitpoint_id, one.key, one.requested_by,
    one.count or '0' })
end

define {
  name = 'ff_list_suspended',
  doc = 'Lists what is suspended in a partition, longest first, from a cursor.',
  flags = { 'no-writes' },
  args = { page.cursor(), arg.int('limit', 1, limit.list_limit_max) },
  gives = { OK = { 'suspended', 'next_cursor' } },
  run = function(p, a)
    local found, next_cursor = page.read(p.suspended, a.cursor, a.limit)
    local rows = {}
    for i = 1, #found, 2 do rows[#rows + 1] = row(p, found[i]) end
    return reply.ok(rows, next_cursor)
  end,
}

return true
