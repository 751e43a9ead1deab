-- State: one stored word, from which the seven dimensions of the state vector are derived.
-- Illegal vectors cannot be stored.
--
--   waiting   claimable, or reserved by a grant
--   held      a member of a flow that is not sealed yet
--   blocked   waits for others of its flow
--   delayed   becomes claimable at delay_until
--   parked    must not be claimed until somebody lets it (model/parking.lua)
--   running   an attempt runs under a lease
--   suspended the attempt waits for a signal, an operator or a time (model/suspension.lua)
--   lapsed    the lease ran out; claimable, the next attempt is a reclaim
--   revoked   the lease was taken away; claimable, the next attempt is a reclaim
--   success failed cancelled expired skipped   over

local state = {}

state.ENDED = { success = true, failed = true, cancelled = true, expired = true, skipped = true }
state.OUTCOMES = { 'success', 'failed', 'cancelled', 'expired', 'skipped' }
state.LIVE = { held = true, blocked = true, waiting = true, delayed = true, parked = true,
  running = true, suspended = true, lapsed = true, revoked = true }
state.CLAIMABLE = { waiting = true, lapsed = true, revoked = true }
state.LOST = { lapsed = true, revoked = true }

local PUBLIC = {
  held = 'waiting_children', blocked = 'waiting_children',
  waiting = 'waiting', delayed = 'delayed', parked = 'waiting', running = 'active',
  suspended = 'suspended', lapsed = 'active', revoked = 'active',
  success = 'completed', failed = 'failed', cancelled = 'cancelled', expired = 'expired',
  skipped = 'skipped',
}

local PHASE = {
  held = 'runnable', blocked = 'runnable',
  waiting = 'runnable', delayed = 'runnable', parked = 'runnable', running = 'active',
  suspended = 'suspended', lapsed = 'active', revoked = 'active',
  success = 'terminal', failed = 'terminal', cancelled = 'terminal', expired = 'terminal',
  skipped = 'terminal',
}

local OWNERSHIP = {
  running = 'leased', lapsed = 'lease_expired_reclaimable', revoked = 'lease_revoked',
}

local ELIGIBILITY = { waiting = 'eligible_now', delayed = 'not_eligible_until_time',
  held = 'blocked_by_dependencies', blocked = 'blocked_by_dependencies' }

-- What it means that an execution must not be claimed, by the reason.
local PARKED = { paused_by_operator = 'blocked_by_operator',
  waiting_for_budget = 'blocked_by_budget', waiting_for_quota = 'blocked_by_quota',
  waiting_for_capable_worker = 'blocked_by_route', paused_by_policy = 'blocked_by_lane_state' }

state.PARKED = PARKED

-- The word for those who wait for a limit.
local LIMITED = { waiting_for_budget = 'rate_limited', waiting_for_quota = 'rate_limited' }

-- The state of what lost its lease, by how the attempt ended.
local LOSSES = { lapse = 'lapsed', revoke = 'revoked' }

local PENDING = {
  retry = 'pending_retry_attempt', replay = 'pending_replay_attempt',
  resume = 'attempt_interrupted',
}

local DELAYS = { retry_backoff = 'waiting_for_retry_backoff', delay = 'waiting_for_delay',
  resume = 'waiting_for_resume_delay' }

-- What a suspension's reason means to those who look at the execution.
local WAITS = {
  waiting_for_signal = 'waiting_for_signal', waiting_for_approval = 'waiting_for_approval',
  waiting_for_callback = 'waiting_for_callback',
  waiting_for_tool_result = 'waiting_for_tool_result',
  waiting_for_operator_review = 'paused_by_operator', paused_by_policy = 'paused_by_policy',
  paused_by_budget = 'waiting_for_budget', step_boundary = 'waiting_for_signal',
  manual_pause = 'paused_by_operator',
}

-- Is this a word that this version knows? A newer one may have written others.
function state.known(word) return PUBLIC[word] ~= nil end

function state.public(x)
  return x.park_reason and x.state == 'parked' and LIMITED[x.park_reason] or PUBLIC[x.state]
end
function state.phase(x) return PHASE[x.state] end
function state.ownership(x) return OWNERSHIP[x.state] or 'unowned' end
function state.outcome(x) return state.ENDED[x.state] and x.state or 'none' end

function state.eligibility(x)
  if x.state == 'parked' then return PARKED[x.park_reason] or PARKED.paused_by_operator end
  return ELIGIBILITY[x.state] or 'not_applicable'
end

-- The state, lapsed or revoked, of an execution whose next attempt takes over from one that lost
-- its lease; nil of any other. One that is parked may be such.
function state.lost_as(x)
  if state.LOST[x.state] then return x.state end
  return not x.next_attempt and LOSSES[x.attempt_end] or nil
end

function state.blocking_reason(x)
  if state.CLAIMABLE[x.state] then return 'waiting_for_worker' end
  if x.state == 'delayed' then return DELAYS[x.delay_reason] or 'waiting_for_delay' end
  if x.state == 'blocked' or x.state == 'held' then return 'waiting_for_children' end
  if x.state == 'suspended' then return WAITS[x.suspend_reason] or 'waiting_for_signal' end
  if x.state == 'parked' then return x.park_reason or 'paused_by_operator' end
  return 'none'
end

function state.attempt(x)
  if x.state == 'running' then return 'running_attempt' end
  if state.LOST[x.state] or x.state == 'parked' and state.lost_as(x) then
    return 'attempt_interrupted'
  end
  if state.ENDED[x.state] and x.attempt_count then return 'attempt_terminal' end
  if x.state == 'skipped' then return 'none' end
  return PENDING[x.next_attempt] or 'pending_first_attempt'
end

-- The beginning of a text, never cut inside a character.
local function excerpt(text, bytes_max)
  if #text <= bytes_max then return text end
  local last = bytes_max
  while last > 0 and math.floor((string.byte(text, last + 1)) / 64) == 2 do last = last - 1 end
  return string.sub(text, 1, last)
end

local function blocked_detail(x)
  if x.attempt_count and not x.waits_again then
    return (x.open_children or 0) .. ' of ' .. (x.children or 0) .. ' children are not done'
  end
  local needed, edges, satisfied = string.match(x.dependencies or '', '^(%w*):(%d+):(%d+):')
  if not needed then return '' end
  return satisfied .. ' of ' .. edges .. ' upstreams are done'
    .. (needed == '' and '' or ', ' .. needed .. ' are needed')
end

local PARKED_TEXTS = {
  waiting_for_quota = 'the limit of its quota is reached',
  waiting_for_budget = 'the limit of a budget is reached',
  waiting_for_capable_worker = 'no worker can take it',
  paused_by_policy = 'a policy keeps it from running',
}

local function parked_detail(x)
  if x.awaits_turn and x.park_reason == 'paused_by_policy' then
    return 'waits until the one before it under its singleton key is over'
  end
  local text = PARKED_TEXTS[x.park_reason]
  if text then return text .. (x.park_note and ': ' .. x.park_note or '') end
  local by = x.parked_by and ' by ' .. x.parked_by or ''
  return 'held' .. by .. (x.park_note and ': ' .. x.park_note or '')
end

-- What to tell a person about why the execution waits.
function state.blocking_detail(x)
  if x.state == 'lapsed' then return 'the lease lapsed; the next claim is a reclaim' end
  if x.state == 'revoked' then return 'the lease was revoked: ' .. (x.revoke_reason or '') end
  if x.state == 'suspended' then
    return 'suspended on waitpoint ' .. (x.waitpoint_id or '') .. ': ' .. (x.suspend_reason or '')
  end
  if x.state == 'held' then return 'the flow is not sealed yet' end
  if x.state == 'blocked' then return blocked_detail(x) end
  if x.state == 'parked' then return parked_detail(x) end
  if x.state ~= 'delayed' then return '' end
  local text = 'delayed until ' .. (x.delay_until or '')
  if x.delay_reason ~= 'retry_backoff' then return text end
  return text .. ' after attempt ' .. ((tonumber(x.attempt_count) or 1) - 1) .. ' failed: '
    .. excerpt(x.failure_reason or '', 200)
end

return state
