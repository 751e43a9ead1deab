-- Claim next: one call picks the best claimable executions of a lane for a worker, starts an
-- attempt of each under a lease, and returns all the worker needs. No other read.

local arg = require('kernel.arg')
local define = require('kernel.define').define
local limit = require('kernel.limit')
local record = require('kernel.record')
local reply = require('kernel.reply')
local capability = require('model.capability')
local claim = require('model.claim')
local state = require('model.state')

-- An entry of the queue whose record does not belong there: somebody wrote around the library.
-- It is removed, so that it cannot block the queue.
local function claimable(w, queue, uuid, x)
  if x and state.CLAIMABLE[x.state] and not x.grant_expires_at then return true end
  w[#w + 1] = { 'ZREM', queue, uuid }
  return false
end

local function take_page(w, p, a, now, has, page, rows)
  local queue = p.queue .. a.lane
  for i = 1, #page do
    if #rows == #a.lease_ids then return end
    local x = record.read(p, page[i])
    if claimable(w, queue, page[i], x) and claim.in_time(x, now)
      and not capability.missing(x.capabilities, has) then
      local lease_id = a.lease_ids[#rows + 1]
      local kind = claim.take(w, p, x, claim.holder(a, lease_id), now)
      rows[#rows + 1] = claim.row(p, x, kind)
    end
  end
end

-- Looks at the queue from its head, page by page, until enough is found or the bound is reached.
local function pick(w, p, a, now, has)
  local rows, from, step = {}, 0, #a.lease_ids
  while #rows < #a.lease_ids and from < limit.claim_scan_max do
    local page = redis.call('ZRANGE', p.queue .. a.lane, from, from + step - 1)
    take_page(w, p, a, now, has, page, rows)
    if #page < step then break end
    from, step = from + step, math.max(step, 32)
  end
  return rows
end

-- What an earlier, unanswered send of this very claim took: running under one of its lease ids.
local function taken_before(p, a, now)
  local wanted, rows = {}, {}
  for i = 1, #a.lease_ids do wanted[a.lease_ids[i]] = true end
  local live = redis.call('ZRANGE', p.due, '(' .. string.format('%.0f', now),
    string.format('%.0f', now + a.lease_ttl_ms), 'BYSCORE', 'LIMIT', 0, limit.claim_recall_max)
  for i = 1, #live do
    local x = record.read(p, live[i])
    if x and x.state == 'running' and wanted[x.lease_id]
      and x.worker_instance_id == a.worker_instance_id then
      rows[#rows + 1] = claim.row(p, x, claim.kind_of(x))
    end
  end
  return rows
end

local worker_id, worker_instance_id = claim.worker_args()

define {
  name = 'ff_claim_next',
  doc = 'Claims the best claimable executions of a lane: as many as lease ids are given, at most.',
  flags = {},
  args = {
    arg.label('lane', limit.lane_bytes_max),
    worker_id,
    worker_instance_id,
    arg.text('capabilities', limit.capabilities_bytes_max),
    claim.ttl(),
    arg.int('retry', 0, 1),
    arg.rest(arg.uuid('lease_ids'), 1, limit.claim_count_max),
  },
  gives = {
    OK = { 'claims' },
    DUPLICATE = { 'claims' },
    invalid_capabilities = { 'text' },
  },
  run = function(p, a, now, w)
    local has, wrong = capability.parse(a.capabilities)
    if not has then return reply.refuse('invalid_capabilities', 'worker:' .. wrong) end
    if a.retry == 1 then
      local before = taken_before(p, a, now)
      if #before > 0 then return reply.duplicate(before) end
    end
    return reply.ok(pick(w, p, a, now, has))
  end,
}

return true
