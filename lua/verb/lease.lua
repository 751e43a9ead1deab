-- Leases: the holder extends its own, an operator takes one away, the clock ends one.

local arg = require('kernel.arg')
local define = require('kernel.define').define
local limit = require('kernel.limit')
local number = require('kernel.number')
local record = require('model.record')
local reply = require('kernel.reply')
local claim = require('model.claim')
local commit = require('model.commit')
local lease = require('model.lease')
local loss = require('model.loss')
local reached = require('model.reached')
local request = require('model.request')
local state = require('model.state')

local read = record.reader { 'lease_id', 'lease_epoch', 'attempt_id', 'lease_expires_at',
  'timeout_at', 'deadline_at', 'budgets_reached' }

-- The budgets that told this lease that their hard limit is reached; hardly ever there are any.
local function budgets_reached(p, x)
  return x.budgets_reached and reached.list(record.read(p, x.uuid)) or ''
end

define {
  name = 'ff_renew_lease',
  doc = 'Extends the lease of a running attempt; never shortens it.',
  flags = { 'allow-oom' },
  args = lease.args { claim.ttl() },
  gives = lease.gives { OK = { 'lease_expires_at', 'lease_epoch', 'budgets_reached' } },
  run = function(p, a, now, w)
    local x = read(p, a.execution_id)
    if not x then return reply.refuse('execution_not_found') end
    local refusal = lease.guard(x, a, now)
    if refusal then return refusal end
    local expires_at = math.max(number.stored(x.lease_expires_at, 0), now + a.lease_ttl_ms)
    record.set(x, 'lease_expires_at', expires_at)
    record.set(x, 'renewed_at', now)
    commit(w, x)
    return reply.ok(expires_at, x.lease_epoch, budgets_reached(p, x))
  end,
}

local LOST = { revoke = 'already_revoked', lapse = 'already_expired' }

-- What became of the lease that is to be revoked, if it is lost already: nil if it is not.
local function lost_before(x, a)
  local word = x.state == 'parked' and state.lost_as(x) or x.state
  if request.seen(x, a) or word == 'revoked' then return 'already_revoked' end
  if word == 'lapsed' then return 'already_expired' end
  if x.state ~= 'running' or a.expected_lease_id == x.lease_id then return nil end
  return LOST[lease.previous(x, a.expected_lease_id)]
end

define {
  name = 'ff_revoke_lease',
  doc = 'Takes a lease away at once; the execution becomes claimable again as a new attempt.',
  flags = { 'allow-oom' },
  args = {
    arg.execution('execution_id'),
    arg.given('expected_lease_id'),
    arg.text('reason', limit.reason_bytes_max),
    request.arg(),
  },
  gives = {
    OK = { 'result', 'lease_id', 'lease_epoch' },
    ALREADY_SATISFIED = { 'reason' },
    execution_not_found = {},
    execution_not_active = { 'terminal_outcome', 'lease_epoch', 'lifecycle_phase', 'attempt_id' },
    stale_lease = {},
  },
  run = function(p, a, now, w)
    local x = record.read(p, a.execution_id)
    if not x then return reply.refuse('execution_not_found') end
    local lost = lost_before(x, a)
    if lost then return reply.already(lost) end
    if x.state ~= 'running' then return lease.not_active(x) end
    if a.expected_lease_id ~= '' and a.expected_lease_id ~= x.lease_id then
      return reply.refuse('stale_lease')
    end
    if a.reason ~= '' then record.set(x, 'revoke_reason', a.reason) end
    request.note(x, a)
    local again = loss.lose(w, x, now, 'revoke')
    return reply.ok(again and 'revoked' or 'terminal_failed', x.lease_id, x.lease_epoch)
  end,
}

define {
  name = 'ff_mark_lease_expired_if_due',
  doc = 'Ends a lease whose time is over; a renewal that came first wins.',
  flags = { 'allow-oom' },
  args = { arg.execution('execution_id') },
  gives = { OK = { 'result' }, ALREADY_SATISFIED = { 'reason' } },
  run = function(p, a, now, w)
    local x = record.read(p, a.execution_id)
    if not x then return reply.already('execution_not_found') end
    if x.state == 'lapsed' then return reply.already('already_expired') end
    if x.state == 'revoked' then return reply.already('already_revoked') end
    if x.state ~= 'running' then return reply.already('not_active') end
    if number.stored(x.lease_expires_at, 0) > now then return reply.already('not_yet_expired') end
    local again = loss.lose(w, x, now, 'lapse')
    return reply.ok(again and 'marked_expired' or 'terminal_failed')
  end,
}

return true
