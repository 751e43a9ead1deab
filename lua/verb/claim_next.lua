-- Claim next: one call picks the best claimable executions of a lane for a worker, starts an
-- attempt of each under a lease, and returns all the worker needs. No other read. Who knows which
-- queue has the best of them names it; otherwise all that suit the worker are looked at.

local arg = require('kernel.arg')
local define = require('kernel.define').define
local limit = require('kernel.limit')
local reply = require('kernel.reply')
local claim = require('model.claim')
local lane = require('model.lane')
local pick = require('model.pick')
local queue = require('model.queue')

local function taken_before(p, a, now)
  return pick.taken_before(p, a.worker_instance_id, a.lease_ids, a.lease_ttl_ms, now)
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
    if before and before[1] then return reply.duplicate(pick.joined(before), '') end
    if lane.is_paused(p, a.lane) then return reply.ok({ claim.PLAIN }, '') end
    local rows, next_score = pick.best(w, p, a, queue.names(p, a, has), a.lease_ids, now)
    return reply.ok(pick.joined(rows), next_score)
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
  run = function(p, a, now) return reply.ok(pick.joined(taken_before(p, a, now))) end,
}

return true
