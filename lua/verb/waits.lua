-- Waits: what is suspended in a partition, longest first.

local arg = require('kernel.arg')
local define = require('kernel.define').define
local limit = require('kernel.limit')
local number = require('kernel.number')
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

-- `score|uuid` of the last entry of the page before; empty for the first page.
local function cursor()
  return arg.custom('cursor', function(text)
    if text == '' then return {} end
    local score, member = string.match(text, '^(%d+)|([%x-]+)$')
    if not score or #score > 15 or #member ~= 36 then
      return nil, 'must be empty or the cursor of an earlier answer'
    end
    return { score = tonumber(score), member = member }
  end)
end

define {
  name = 'ff_list_suspended',
  doc = 'Lists what is suspended in a partition, longest first, from a cursor.',
  flags = { 'no-writes' },
  args = { cursor(), arg.int('limit', 1, limit.list_limit_max) },
  gives = { OK = { 'suspended', 'next_cursor' } },
  run = function(p, a)
    local from = page.position(p.suspended, false, a.cursor)
    local found, rows = page.stretch(p.suspended, false, from, from + a.limit - 1), {}
    for i = 1, #found, 2 do rows[#rows + 1] = row(p, found[i]) end
    local last = #found
    if last < 2 * a.limit then return reply.ok(rows, '') end
    return reply.ok(rows, number.text(tonumber(found[last])) .. '|' .. found[last - 1])
  end,
}

return true
