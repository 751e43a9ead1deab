-- Waits: what is suspended in a partition, longest first.

local define = require('kernel.define').define
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
  args = page.args(),
  gives = { OK = { 'suspended', 'next_cursor' } },
  run = function(p, a) return page.rows(p, p.suspended, a, row) end,
}

return true
