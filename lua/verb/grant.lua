-- Grants: the scheduler reserves one execution for one worker for a short time. While a grant
-- lasts, the execution is out of its queue; it returns by itself when the grant is not used.

local arg = require('kernel.arg')
local define = require('kernel.define').define
local limit = require('kernel.limit')
local number = require('kernel.number')
local record = require('model.record')
local reply = require('kernel.reply')
local capability = require('model.capability')
local claim = require('model.claim')
local commit = require('model.commit')
local flow = require('model.flow')
local index = require('model.index')
local lane = require('model.lane')
local loss = require('model.loss')
local queue = require('model.queue')
local state = require('model.state')

local worker_id, worker_instance_id = claim.worker_args()

local ARGS = {
  arg.execution('execution_id'),
  worker_id,
  worker_instance_id,
  arg.text('capabilities', limit.capabilities_bytes_max),
  arg.int('grant_ttl_ms', 1, limit.grant_ttl_ms_max),
  arg.uuid('grant_id'),
}

local function gives(own)
  own.OK = { 'execution_id', 'grant_id', 'grant_expires_at' }
  own.DUPLICATE = { 'execution_id', 'grant_id', 'grant_expires_at' }
  own.execution_not_found = {}
  own.grant_already_exists = {}
  own.invalid_capabilities = { 'text' }
  own.capability_mismatch = { 'missing' }
  own.flow_cancelled = {}
  own.lane_paused = {}
  return own
end

local function answer(status, p, x)
  return status(p.tag .. x.uuid, x.grant_id, x.grant_expires_at)
end

-- A live grant refuses everybody but its own worker, who is told of it again.
local function existing(p, x, a, now)
  if number.stored(x.grant_expires_at, 0) <= now then return nil end
  if x.grant_worker_id == a.worker_id and x.grant_instance_id == a.worker_instance_id then
    return answer(reply.duplicate, p, x)
  end
  return reply.refuse('grant_already_exists')
end

local function mismatch(x, a)
  local has, wrong = capability.parse(a.capabilities)
  if not has then return reply.refuse('invalid_capabilities', 'worker:' .. wrong) end
  local missing = capability.missing(x.capabilities, has)
  return missing and reply.refuse('capability_mismatch', missing)
end

local function grant(w, p, x, a, kind, now)
  if flow.stopped(p, x) then return reply.refuse('flow_cancelled') end
  if lane.is_paused(p, x.lane or '') then return reply.refuse('lane_paused') end
  record.set(x, 'grant_id', a.grant_id)
  record.set(x, 'grant_kind', kind)
  record.set(x, 'grant_worker_id', a.worker_id)
  record.set(x, 'grant_instance_id', a.worker_instance_id)
  record.set(x, 'grant_expires_at', now + a.grant_ttl_ms)
  commit(w, x, 'granted', kind)
  return answer(reply.ok, p, x)
end

define {
  name = 'ff_issue_claim_grant',
  doc = 'Reserves a claimable execution for one worker.',
  flags = { 'allow-oom' },
  args = ARGS,
  gives = gives { execution_not_eligible = {} },
  run = function(p, a, now, w)
    local x = record.read(p, a.execution_id)
    if not x then return reply.refuse('execution_not_found') end
    if x.state ~= 'waiting' or not claim.in_time(x, now) then
      return reply.refuse('execution_not_eligible')
    end
    return existing(p, x, a, now) or mismatch(x, a) or grant(w, p, x, a, 'claim', now)
  end,
}

-- Which call a grant is good for.
local function good_for(x)
  if state.LOST[x.state] then return 'reclaim' end
  return x.next_attempt == 'resume' and 'resume' or 'claim'
end

local read_grant = record.reader { 'grant_id' }

-- What an earlier, unanswered send of this very request reserved.
local function granted_before(p, a, now)
  local live = index.about(p.due, now, a.grant_ttl_ms)
  for i = 1, #live do
    local found = read_grant(p, live[i])
    if found and found.grant_id == a.grant_id then
      local x = record.read(p, live[i])
      local answered = answer(reply.duplicate, p, x)
      answered[#answered + 1] = good_for(x)
      answered[#answered + 1] = ''
      return answered
    end
  end
  return nil
end

define {
  name = 'ff_grant_next',
  doc = 'Reserves the best execution of a lane that a worker could claim or take over.',
  flags = { 'allow-oom' },
  args = {
    arg.label('lane', limit.lane_bytes_max),
    worker_id,
    worker_instance_id,
    arg.text('capabilities', limit.capabilities_bytes_max),
    arg.int('grant_ttl_ms', 1, limit.grant_ttl_ms_max),
    arg.int('retry', 0, 1),
    arg.uuid('grant_id'),
    queue.need(),
    queue.score_max(),
    arg.optional(arg.labels('namespaces', limit.namespace_bytes_max, limit.namespaces_max)),
  },
  gives = {
    OK = { 'execution_id', 'grant_id', 'grant_expires_at', 'kind', 'next_score' },
    DUPLICATE = { 'execution_id', 'grant_id', 'grant_expires_at', 'kind', 'next_score' },
    EMPTY = { 'next_score' },
    invalid_capabilities = { 'text' },
    capability_mismatch = { 'missing' },
  },
  run = function(p, a, now, w)
    local has, refusal = queue.worker(a)
    if refusal then return refusal end
    local answered = a.retry == 1 and granted_before(p, a, now)
    if answered then return answered end
    if lane.is_paused(p, a.lane) then return reply.empty('') end
    local next_score = queue.walk(w, p, a, queue.names(p, a, has), now, 1, function(x)
      answered = grant(w, p, x, a, state.LOST[x.state] and 'reclaim' or 'claim', now)
      answered[#answered + 1] = good_for(x)
      return false
    end)
    if not answered then return reply.empty(next_score) end
    answered[#answered + 1] = next_score
    return answered
  end,
}

define {
  name = 'ff_issue_reclaim_grant',
  doc = 'Reserves an execution that lost its lease for one worker.',
  flags = { 'allow-oom' },
  args = ARGS,
  gives = gives { execution_not_reclaimable = {}, max_retries_exhausted = {} },
  run = function(p, a, now, w)
    local x = record.read(p, a.execution_id)
    if not x then return reply.refuse('execution_not_found') end
    if not state.LOST[x.state] or not claim.in_time(x, now) then
      return loss.refusal(x)
    end
    return existing(p, x, a, now) or mismatch(x, a) or grant(w, p, x, a, 'reclaim', now)
  end,
}

return true
