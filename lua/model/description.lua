-- A description: everything about an execution but its payload and result.

local blob = require('model.blob')
local keys = require('kernel.keys')
local number = require('kernel.number')
local reply = require('kernel.reply')
local attempt = require('model.attempt')
local effective = require('model.effective')
local index = require('model.index')
local lane = require('model.lane')
local lease = require('model.lease')
local state = require('model.state')
local waitpoint = require('model.waitpoint')

local description = {}

local function latest(a, b) return math.max(number.stored(a, 0), number.stored(b, 0)) end

local function transition_at(x)
  return math.max(latest(x.ended_at, x.transition_at), latest(x.resumed_at, x.created_at),
    number.stored(x.attempt_started_at, 0))
end

local function mutation_at(x)
  local at = latest(transition_at(x), x.mutation_at)
  return latest(at, latest(x.renewed_at, x.progress_at))
end

-- The lease is only there while it is held.
local function held(x, value) return x.state == 'running' and value or '' end

local SUSPENSION = { 'suspension_id', 'waitpoint_id', 'waitpoint_key', 'reason', 'requested_by',
  'since', 'timeout_at', 'behavior', 'signal_count', 'matched', 'closed_at', 'close_reason',
  'worker_instance_id', 'ended_by' }

local function suspension_row(one)
  return reply.row(SUSPENSION, { one.suspension, one.id, one.key, one.reason, one.requested_by,
    one.since, one.timeout_at, one.behavior, one.count or '0', one.matched or '0', one.closed_at,
    one.close_reason, one.worker, waitpoint.ended_by(one) })
end

-- The suspensions that are still known, in the order in which they began: the execution is
-- suspended on the last, if at all. Waitpoints that were never used are none.
local function suspensions(p, x)
  local found, rows, list = {}, {}, waitpoint.list(x)
  for i = 1, #list do
    local one = list[i].suspension ~= '' and waitpoint.read(p, list[i].id)
    if one and one.suspension and one.since then
      found[#found + 1] = { one = one, place = i, since = number.stored(one.since, 0),
        latest = one.id == x.waitpoint_id and 1 or 0 }
    end
  end
  table.sort(found, function(a, b)
    if a.latest ~= b.latest then return a.latest < b.latest end
    if a.since ~= b.since then return a.since < b.since end
    return a.place < b.place
  end)
  for i = 1, #found do rows[i] = suspension_row(found[i].one) end
  return rows
end

-- What a description tells, in order. A newer version may add to its end.
description.FIELDS = {
  'namespace', 'lane', 'kind', 'priority', 'creator', 'lifecycle_phase', 'ownership_state',
  'eligibility_state', 'blocking_reason', 'terminal_outcome', 'attempt_state', 'public_state',
  'blocking_detail', 'created_at', 'started_at', 'ended_at', 'last_transition_at',
  'last_mutation_at', 'delay_until', 'deadline_at', 'attempt_count', 'attempt_id', 'attempt_type',
  'lease_id', 'lease_epoch', 'lease_expires_at', 'worker_id', 'worker_instance_id',
  'attempt_timeout_at', 'retry_count', 'reclaim_count', 'replay_count', 'failure_reason',
  'failure_category', 'failure_detail', 'cancel_reason', 'cancelled_by', 'progress_pct',
  'progress_message', 'progress_at', 'required_capabilities', 'flow_id', 'purge_at',
  'policy_json', 'tags', 'lease_heard_at', 'correlation_id', 'suspensions', 'hold_reason',
  'held_at', 'held_by', 'hold_note', 'effective_policy',
}

-- What stands in these fields.
function description.row(p, x)
  local paused = x.state == 'waiting' and lane.is_paused(p, x.lane or '')
  return reply.row(description.FIELDS, { x.namespace, x.lane, x.kind, x.priority or 0,
    x.creator, state.phase(x), state.ownership(x),
    paused and 'blocked_by_lane_state' or state.eligibility(x),
    paused and 'paused_by_policy' or state.blocking_reason(x), state.outcome(x),
    state.attempt(x), state.public(x),
    paused and 'the lane ' .. x.lane .. ' is paused' or state.blocking_detail(x), x.created_at,
    attempt.first_started_at(x), x.ended_at, transition_at(x), mutation_at(x),
    x.state == 'delayed' and x.delay_until,
    x.deadline_at,
    x.attempt_count or 0, x.attempt_count and lease.attempt_id(x),
    x.attempt_count and attempt.kind(x), held(x, x.lease_id), x.lease_epoch or 0,
    held(x, x.lease_expires_at), held(x, x.worker_id), held(x, x.worker_instance_id),
    held(x, x.timeout_at), x.retry_count or 0, x.reclaim_count or 0, x.replay_count or 0,
    x.failure_reason, x.failure_category, blob.get(x, 'detail'), x.cancel_reason,
    x.cancelled_by, x.progress_pct, x.progress_message, x.progress_at, x.capabilities, x.flow_id,
    state.ENDED[x.state] and index.purge_at(x), blob.get(x, 'policy'),
    x.tagged and redis.call('HGETALL', keys.tags(x.key)) or {},
    held(x, x.renewed_at or x.resumed_at or x.attempt_started_at), x.correlation_id,
    suspensions(p, x), x.park_reason, x.parked_at, x.parked_by, x.park_note,
    effective.text(x) })
end

return description
