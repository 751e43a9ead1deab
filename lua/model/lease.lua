-- Leases: the proof that a caller is the one holder of a running attempt. A lease is named by the
-- fence: lease id, epoch and attempt id, all three.

local arg = require('kernel.arg')
local number = require('kernel.number')
local record = require('model.record')
local reply = require('kernel.reply')
local state = require('model.state')

local lease = {}

-- The fence as arguments, to be spliced into a function's own.
function lease.args(args)
  local out = { arg.execution('execution_id'), arg.given('lease_id'), arg.given('lease_epoch'),
    arg.given('attempt_id') }
  for i = 1, #args do out[#out + 1] = args[i] end
  return out
end

-- What a fenced function may answer besides its own outcomes.
function lease.gives(own)
  own.execution_not_found = {}
  own.execution_not_active = { 'terminal_outcome', 'lease_epoch', 'lifecycle_phase', 'attempt_id' }
  own.fence_required = {}
  own.partial_fence_triple = {}
  own.lease_revoked = {}
  own.lease_expired = {}
  own.stale_lease = {}
  return own
end

function lease.not_active(x)
  return reply.refuse('execution_not_active', state.outcome(x), x.lease_epoch or '0',
    state.phase(x), lease.attempt_id(x) or '')
end

-- An attempt goes by the id of the lease that began it unless it was given one of its own.
function lease.attempt_id(x) return x.attempt_id or x.lease_id end

-- Is this the fence of the latest lease, whatever became of it?
function lease.matches(x, a)
  return x.lease_id == a.lease_id and x.lease_epoch == a.lease_epoch
    and lease.attempt_id(x) == a.attempt_id
end

-- What tells one lease from all others: a repetition must show the lease of what it repeats.
function lease.proof(holder)
  return (holder.lease_epoch or '0') .. ':' .. (holder.lease_id or '')
end

local function incomplete(a)
  local given = 0
  if a.lease_id ~= '' then given = given + 1 end
  if a.lease_epoch ~= '' then given = given + 1 end
  if a.attempt_id ~= '' then given = given + 1 end
  if given == 3 then return nil end
  return reply.refuse(given == 0 and 'fence_required' or 'partial_fence_triple')
end

-- nil if the caller holds the live lease, otherwise the refusal.
function lease.guard(x, a, now)
  local refusal = incomplete(a)
  if refusal then return refusal end
  if x.state == 'revoked' then return reply.refuse('lease_revoked') end
  if x.state == 'lapsed' then return reply.refuse('lease_expired') end
  if x.state ~= 'running' then return lease.not_active(x) end
  if number.stored(x.lease_expires_at, 0) <= now then return reply.refuse('lease_expired') end
  if not lease.matches(x, a) then return reply.refuse('stale_lease') end
  return nil
end

-- Remembers the lease that is about to be replaced: `epoch:how it ended:until when:lease id`.
-- Whoever ended it and lost the answer may ask again while the next one runs.
function lease.remember(x, how)
  if not how or not x.lease_id then return end
  record.set(x, 'previous_lease', (x.lease_epoch or '') .. ':' .. how .. ':'
    .. (x.delay_until or '') .. ':' .. x.lease_id)
end

-- How the lease before the latest ended and until when, if it is the one of this id and, where
-- that is given, epoch.
function lease.previous(x, lease_id, epoch)
  local was, how, at, id = string.match(x.previous_lease or '', '^(%d*):(%l+):(%d*):(.*)$')
  if not was or id ~= lease_id or epoch and was ~= epoch then return nil end
  return how, at
end

-- How the lease that a caller names ended, while the execution was not over or is again: it is the
-- latest one, or the one before.
function lease.ended_as(x, a)
  if lease.matches(x, a) then return x.pause_kind or x.attempt_end, x.delay_until end
  return lease.previous(x, a.lease_id, a.lease_epoch)
end

local function next_epoch(x) return number.one_more(x.lease_epoch) end

-- Takes the lease from a holder that did not ask for it: under the next epoch, what the holder
-- still sends is refused and never taken for the repetition of something that was done.
function lease.withdraw(x) record.set(x, 'lease_epoch', next_epoch(x)) end

local FIELDS = { 'state', 'lease_id', 'lease_epoch', 'lease_expires_at', 'worker_id',
  'worker_instance_id' }

-- A function that gives an execution to the worker whom the arguments name: a new lease with the
-- next epoch. One or two more fields, which it is made for, are stored along with it.
function lease.acquirer(name, name2)
  local names = { nil, nil, nil, nil, nil, nil, name, name2 }
  for i = 1, #FIELDS do names[i] = FIELDS[i] end
  local put = record.setter(names)
  return function(x, a, lease_id, now, value, value2)
    put(x, 'running', lease_id, next_epoch(x), now + a.lease_ttl_ms, a.worker_id,
      a.worker_instance_id, value, value2)
  end
end

return lease
