-- Claim next: one call picks the best claimable executions of a lane for a worker, starts an
-- attempt of each under a lease, and returns all the worker needs. No other read. Who knows which
-- queue has the best of them names it; otherwise all that suit the worker are looked at.

local arg = require('kernel.arg')
local define = require('kernel.define').define
local limit = require('kernel.limit')
local record = require('model.record')
local reply = require('kernel.reply')
local claim = require('model.claim')
local index = require('model.index')
local queue = require('model.queue')

-- How long the longest of these rows is.
local function width_of(rows)
  local width = claim.PLAIN
  for i = 1, #rows do width = math.max(width, #rows[i]) end
  return width
end

-- Rows are joined to one flat list: an inner array for each would cost more than its contents. In
-- front stands how long each is, so that an older reader finds the next one.
local function joined(rows)
  if #rows == 1 then return { #rows[1], unpack(rows[1]) } end
  local width = width_of(rows)
  local list = { width }
  for i = 1, #rows do
    for j = 1, width do list[#list + 1] = rows[i][j] or claim.REST[j - claim.PLAIN] end
  end
  return list
end

local function pick(w, p, a, now, has)
  local rows, lease_ids, count, bytes = {}, a.lease_ids, 0, 0
  local next_score = queue.walk(w, p, a, has, now, #lease_ids, function(x)
    count = count + 1
    local row, size = claim.row(p, x, claim.take(w, x, a, lease_ids[count], now))
    rows[count], bytes = row, bytes + size
    return count < #lease_ids and bytes < limit.claim_bytes_max
  end)
  return joined(rows), next_score
end

local read_lease = record.reader { 'lease_id', 'worker_instance_id' }

-- What an earlier, unanswered send of this very claim took: running under one of its lease ids.
local function taken_before(p, a, now)
  local holds, rows = {}, {}
  local live = index.about(p.leases, now, a.lease_ttl_ms)
  for i = 1, #live do
    local x = read_lease(p, live[i])
    if x and x.state == 'running' and x.worker_instance_id == a.worker_instance_id then
      holds[x.lease_id or ''] = x.uuid
    end
  end
  for i = 1, #a.lease_ids do
    local uuid = holds[a.lease_ids[i]]
    local x = uuid and record.read(p, uuid)
    if x then rows[#rows + 1] = claim.row(p, x, claim.kind_of(x)) end
  end
  return rows
end

local worker_id, worker_instance_id = claim.worker_args()

define {
  name = 'ff_claim_next',
  doc = 'Claims the best claimable executions of a lane: as many as lease ids are given, at most.',
  flags = { 'allow-oom' },
  args = {
    arg.label('lane', limit.lane_bytes_max),
    worker_id,
    worker_instance_id,
    arg.text('capabilities', limit.capabilities_bytes_max),
    claim.ttl(),
    arg.int('retry', 0, 1),
    queue.need(),
    queue.score_max(),
    arg.optional(arg.labels('kinds', limit.kind_bytes_max, limit.kinds_max)),
    arg.optional(arg.labels('namespaces', limit.namespace_bytes_max, limit.namespaces_max)),
    arg.rest(arg.uuid('lease_ids'), 1, limit.claim_count_max),
  },
  gives = {
    OK = { 'claims', 'next_score' },
    DUPLICATE = { 'claims', 'next_score' },
    invalid_capabilities = { 'text' },
    capability_mismatch = { 'missing' },
  },
  run = function(p, a, now, w)
    local has, refusal = queue.worker(a)
    if refusal then return refusal end
    local before = a.retry == 1 and taken_before(p, a, now)
    if before and before[1] then return reply.duplicate(joined(before), '') end
    return reply.ok(pick(w, p, a, now, has))
  end,
}

define {
  name = 'ff_recall_claims',
  doc = 'Tells what a claim took whose answer was lost: what its worker holds under its lease ids.',
  flags = { 'no-writes' },
  args = {
    worker_instance_id,
    claim.ttl(),
    arg.rest(arg.uuid('lease_ids'), 1, limit.claim_count_max),
  },
  gives = { OK = { 'claims' } },
  run = function(p, a, now) return reply.ok(joined(taken_before(p, a, now))) end,
}

return true
