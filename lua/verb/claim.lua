-- Claim by grant: a worker turns its grant into a lease: of a new attempt, of a paused attempt that
-- goes on, or of an attempt that replaces one whose lease was lost.

local arg = require('kernel.arg')
local blob = require('model.blob')
local define = require('kernel.define').define
local limit = require('kernel.limit')
local number = require('kernel.number')
local record = require('model.record')
local reply = require('kernel.reply')
local claim = require('model.claim')
local flow = require('model.flow')
local lane = require('model.lane')
local lease = require('model.lease')
local loss = require('model.loss')
local state = require('model.state')

local worker_id, worker_instance_id = claim.worker_args()

local function args(own)
  local out = {
    arg.execution('execution_id'), worker_id, worker_instance_id,
    arg.optional(arg.label('lane', limit.lane_bytes_max)), arg.given('grant_id'),
    arg.uuid('lease_id'), claim.ttl(),
  }
  for i = 1, #own do out[#out + 1] = own[i] end
  return out
end

local function gives(own)
  own.OK = { 'claim' }
  own.DUPLICATE = { 'claim' }
  own.execution_not_found = {}
  own.invalid_claim_grant = {}
  own.claim_grant_expired = {}
  own.data_lost = { 'what' }
  own.flow_cancelled = {}
  own.lane_paused = {}
  return own
end

-- This very claim was done before and its answer was lost.
local function repeated(p, x, a)
  if x.state ~= 'running' or x.lease_id ~= a.lease_id then return nil end
  if a.attempt_id and lease.attempt_id(x) ~= a.attempt_id then return nil end
  return reply.duplicate(claim.row(p, x, claim.kind_of(x)))
end

-- A grant is bound to its kind, worker, instance and id; a lane, if named, must be the right one.
local function wrong_grant(x, a, kind, now)
  if not x.grant_expires_at or x.grant_kind ~= kind or x.grant_worker_id ~= a.worker_id
    or x.grant_instance_id ~= a.worker_instance_id or x.grant_id ~= a.grant_id
    or a.lane and x.lane ~= a.lane then
    return reply.refuse('invalid_claim_grant')
  end
  if number.stored(x.grant_expires_at, 0) <= now then
    return reply.refuse('claim_grant_expired')
  end
  return nil
end

local function take(w, p, x, a, now)
  if flow.stopped(p, x) then return reply.refuse('flow_cancelled') end
  if lane.is_paused(p, x.lane or '') then return reply.refuse('lane_paused') end
  if blob.lost(x, 'payload') then return reply.refuse('data_lost', 'payload') end
  local kind = claim.take(w, x, a, a.lease_id, now)
  return reply.ok(claim.row(p, x, kind))
end

-- Why a runnable execution cannot be claimed now.
local function not_leaseable(x, now)
  if x.state == 'running' then return reply.refuse('lease_conflict') end
  if x.state ~= 'waiting' or not claim.in_time(x, now) then
    return reply.refuse('execution_not_leaseable')
  end
  return nil
end

define {
  name = 'ff_claim_execution',
  doc = 'Starts a new attempt of a granted execution under a lease.',
  flags = { 'allow-oom' },
  args = args { arg.uuid('attempt_id') },
  gives = gives { execution_not_leaseable = {}, lease_conflict = {},
    use_claim_resumed_execution = {} },
  run = function(p, a, now, w)
    local x = record.read(p, a.execution_id)
    if not x then return reply.refuse('execution_not_found') end
    local answer = repeated(p, x, a) or not_leaseable(x, now)
    if answer then return answer end
    if x.next_attempt == 'resume' then return reply.refuse('use_claim_resumed_execution') end
    return wrong_grant(x, a, 'claim', now) or take(w, p, x, a, now)
  end,
}

define {
  name = 'ff_claim_resumed_execution',
  doc = 'Goes on with the paused attempt of a granted execution under a new lease.',
  flags = { 'allow-oom' },
  args = args {},
  gives = gives { execution_not_leaseable = {}, lease_conflict = {},
    not_a_resumed_execution = {} },
  run = function(p, a, now, w)
    local x = record.read(p, a.execution_id)
    if not x then return reply.refuse('execution_not_found') end
    local answer = repeated(p, x, a) or not_leaseable(x, now)
    if answer then return answer end
    if x.next_attempt ~= 'resume' then return reply.refuse('not_a_resumed_execution') end
    return wrong_grant(x, a, 'claim', now) or take(w, p, x, a, now)
  end,
}

define {
  name = 'ff_reclaim_execution',
  doc = 'Replaces an attempt whose lease was lost by a new one.',
  flags = { 'allow-oom' },
  args = args { arg.uuid('attempt_id') },
  gives = gives { execution_not_reclaimable = {}, max_retries_exhausted = {} },
  run = function(p, a, now, w)
    local x = record.read(p, a.execution_id)
    if not x then return reply.refuse('execution_not_found') end
    local answer = repeated(p, x, a)
    if answer then return answer end
    if not state.LOST[x.state] or not claim.in_time(x, now) then
      return loss.refusal(x)
    end
    return wrong_grant(x, a, 'reclaim', now) or take(w, p, x, a, now)
  end,
}

return true
