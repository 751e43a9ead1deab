-- Hold: an operator keeps one execution from being claimed, and lets it go again.

local arg = require('kernel.arg')
local define = require('kernel.define').define
local limit = require('kernel.limit')
local record = require('model.record')
local reply = require('kernel.reply')
local attempt = require('model.attempt')
local commit = require('model.commit')
local flow = require('model.flow')
local lease = require('model.lease')
local page = require('model.page')
local parking = require('model.parking')
local request = require('model.request')
local runnable = require('model.runnable')
local state = require('model.state')

local function is_held(x) return x.park_reason == parking.BY_OPERATOR end

-- Nothing but a claim is missing, or nothing but that it may be claimed.
local function awaits_claim(x)
  return state.CLAIMABLE[x.state] or x.state == 'delayed' or x.state == 'parked'
end

-- Puts an execution where it belongs now that it must not, or may, be claimed. What runs, is
-- suspended or waits for others stays where it is.
local function replace(w, x, now, name, why)
  if awaits_claim(x) then
    record.drop(x, attempt.GRANT)
    runnable.place(x, now)
    record.set(x, 'transition_at', now)
  else
    record.set(x, 'mutation_at', now)
  end
  commit(w, x, name, why)
end

define {
  name = 'ff_hold_execution',
  doc = 'Keeps an execution from being claimed; one that runs is held when its attempt is over.',
  flags = { 'allow-oom' },
  args = {
    arg.execution('execution_id'),
    arg.text('requested_by', limit.creator_bytes_max),
    arg.text('reason', limit.reason_bytes_max),
    request.arg(),
  },
  gives = {
    OK = { 'public_state' },
    ALREADY_SATISFIED = { 'public_state' },
    execution_not_found = {},
    execution_not_active = { 'terminal_outcome', 'lease_epoch', 'lifecycle_phase', 'attempt_id' },
  },
  run = function(p, a, now, w)
    local x = record.read(p, a.execution_id)
    if not x then return reply.refuse('execution_not_found') end
    if request.seen(x, a) then return reply.already(state.public(x)) end
    if state.ENDED[x.state] then return lease.not_active(x) end
    if is_held(x) then return reply.already(state.public(x)) end
    parking.forbid(x, parking.BY_OPERATOR, a.requested_by, a.reason, now)
    request.note(x, a)
    replace(w, x, now, 'parked', parking.BY_OPERATOR .. ':' .. a.requested_by)
    return reply.ok(state.public(x))
  end,
}

define {
  name = 'ff_release_execution',
  doc = 'Lets an execution that an operator holds be claimed again.',
  flags = { 'allow-oom' },
  args = {
    arg.execution('execution_id'),
    arg.text('requested_by', limit.creator_bytes_max),
    request.arg(),
  },
  gives = {
    OK = { 'public_state' },
    ALREADY_SATISFIED = { 'public_state' },
    execution_not_found = {},
    flow_cancelled = {},
  },
  run = function(p, a, now, w)
    local x = record.read(p, a.execution_id)
    if not x then return reply.refuse('execution_not_found') end
    if request.seen(x, a) or not is_held(x) then return reply.already(state.public(x)) end
    if flow.stopped(p, x) then return reply.refuse('flow_cancelled') end
    parking.allow(x, now)
    request.note(x, a)
    replace(w, x, now, 'unparked', parking.BY_OPERATOR .. ':' .. a.requested_by)
    return reply.ok(state.public(x))
  end,
}

local read = record.reader { 'lane', 'kind', 'namespace', 'park_reason', 'parked_at', 'parked_by',
  'park_note' }

local ROW = { 'execution_id', 'namespace', 'lane', 'kind', 'public_state', 'blocking_reason',
  'held_at', 'requested_by', 'reason' }

local function row(p, uuid)
  local x = read(p, uuid)
  if not x or not x.park_reason or not state.known(x.state) then return nil end
  return reply.row(ROW, { p.tag .. uuid, x.namespace, x.lane, x.kind, state.public(x),
    x.park_reason, x.parked_at, x.parked_by, x.park_note })
end

define {
  name = 'ff_list_held',
  doc = 'Lists what must not be claimed in a partition, longest first, from a cursor.',
  flags = { 'no-writes' },
  args = page.args(),
  gives = { OK = { 'held', 'next_cursor' } },
  run = function(p, a) return page.rows(p, p.parked, a, row) end,
}

return true
