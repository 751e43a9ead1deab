-- Flow cancel: ends a flow, and says what became of each of its members. Who is still to be
-- cancelled follows from how far the flow's walk is, which is written with every step of it; nobody
-- is passed who was not cancelled, but those that cannot be read, which are listed apart and can be
-- tried again.

local arg = require('kernel.arg')
local define = require('kernel.define').define
local limit = require('kernel.limit')
local number = require('kernel.number')
local record = require('model.record')
local reply = require('kernel.reply')
local event = require('model.event')
local flow = require('model.flow')
local log = require('model.log')
local state = require('model.state')
local walk = require('model.walk')

local POLICIES = { 'cancel_all', 'cancel_pending', 'flow_only' }

-- The grace of the original: how long others leave what is owed to who cancels. Ours is carried out
-- by the flow's own walk, so it is only checked.
local function is_grace(text)
  if text == '' then return true end
  local value = number.parse(text)
  return value ~= nil and value >= 0
end

local ANSWER = { 'policy', 'member_count', 'done', 'stuck' }

-- How far a cancel is.
local function stand(f)
  return f.cancel_policy, flow.number(f, 'nodes'), flow.walks(f) == 'cancel' and 0 or 1,
    flow.number(f, 'stuck')
end

define {
  name = 'ff_cancel_flow',
  doc = 'Cancels a flow; its members are cancelled in steps that survive any crash.',
  flags = { 'allow-oom' },
  args = {
    arg.uuid('flow_id'),
    arg.text('reason', limit.reason_bytes_max),
    arg.choice('policy', POLICIES),
    arg.text('grace_ms', limit.category_bytes_max),
  },
  gives = {
    OK = ANSWER, ALREADY_SATISFIED = ANSWER, flow_not_found = {}, flow_already_terminal = {},
    invalid_grace_ms = {},
  },
  run = function(p, a, now, w)
    if not is_grace(a.grace_ms) then return reply.refuse('invalid_grace_ms') end
    local f = flow.read(p, a.flow_id)
    if not f or flow.is_abandoned(f) then return reply.refuse('flow_not_found') end
    if f.state == 'cancelled' then return reply.already(stand(f)) end
    if flow.is_over(f) then return reply.refuse('flow_already_terminal') end
    flow.set(w, f, { 'state', 'cancelled', 'cancelled_at', number.text(now), 'cancel_policy',
      a.policy, 'changed_at', number.text(now) })
    if a.reason ~= '' then flow.set(w, f, { 'cancel_reason', a.reason }) end
    w[#w + 1] = log.entry(p, event.flow_text(f, 'flow_cancelled', a.policy))
    flow.retime(w, f)
    -- What is held would be held for ever.
    if a.policy ~= 'flow_only' or flow.holds(f) then
      walk.begin(w, p, f, 'cancel', now)
    end
    return reply.ok(stand(f))
  end,
}

-- What a cancel meant for a member.
local FATES = { 'stopped', 'fenced', 'had_ended', 'runs_on', 'owed', 'stuck' }

-- Of one that is over: whoever the cancel ended did so not before it. Its worker may not know
-- before the lease that it had is over.
local function fate_of_ended(f, x)
  local before = flow.number(f, 'cancelled_at') - number.stored(x.ended_at, 0)
  if x.state == 'cancelled' and x.cancelled_by == 'flow_cascade' and before <= 0 then
    return x.lease_expires_at and 'fenced' or 'stopped'
  end
  return before < 0 and not flow.stops(f, x) and 'runs_on' or 'had_ended'
end

local function fate(f, x)
  if not x or not state.known(x.state) then return 'stuck' end
  if state.ENDED[x.state] then return fate_of_ended(f, x) end
  return (flow.stops(f, x) or x.held) and 'owed' or 'runs_on'
end

local read_member = record.reader { 'ordinal', 'member_name', 'attempt_count', 'ended_at',
  'cancelled_by', 'lease_expires_at', 'held', 'kept' }

local ENTRY = { 'execution_id', 'ordinal', 'name', 'fate', 'public_state', 'ended_at',
  'fenced_until' }

local function entry(p, uuid, ordinal, x, what)
  if what == 'stuck' then return reply.row(ENTRY, { p.tag .. uuid, ordinal, '', what }) end
  return reply.row(ENTRY, { p.tag .. uuid, ordinal, x.member_name, what, state.public(x),
    x.ended_at, what == 'fenced' and x.lease_expires_at })
end

define {
  name = 'ff_read_cancel_receipt',
  doc = 'Tells what a cancel meant for the members of a flow, from an ordinal on.',
  flags = { 'no-writes' },
  args = {
    arg.uuid('flow_id'),
    arg.optional(arg.choice('fate', FATES)),
    arg.int('from', 0, limit.flow_members_max),
    arg.int('limit', 1, limit.list_limit_max),
  },
  gives = {
    OK = { 'policy', 'cancelled_at', 'done', 'stuck', 'entries', 'next_from' },
    flow_not_found = {}, flow_not_cancelled = {},
  },
  run = function(p, a)
    local f = flow.read(p, a.flow_id)
    if not f then return reply.refuse('flow_not_found') end
    if f.state ~= 'cancelled' then return reply.refuse('flow_not_cancelled') end
    local rows, list = {}, flow.members(f, a.from, a.limit)
    for i = 1, #list, 2 do
      local x, ordinal = read_member(p, list[i]), tonumber(list[i + 1])
      local what = fate(f, x)
      if not a.fate or a.fate == what then
        rows[#rows + 1] = entry(p, list[i], ordinal, x, what)
      end
    end
    local policy, _, done, stuck = stand(f)
    return reply.ok(policy, f.cancelled_at, done, stuck, rows,
      #list == 2 * a.limit and tonumber(list[#list]) + 1 or '')
  end,
}

define {
  name = 'ff_retry_stuck_members',
  doc = 'Tries members again that could not be dealt with, from an ordinal on.',
  flags = { 'allow-oom' },
  args = { arg.uuid('flow_id'), arg.int('from', 0, limit.flow_members_max) },
  gives = { OK = { 'tried', 'settled', 'stuck', 'next_from' }, flow_not_found = {} },
  run = function(p, a, now, w)
    local f = flow.read(p, a.flow_id)
    if not f then return reply.refuse('flow_not_found') end
    local tried, settled, on = walk.retry(w, f, a.from, now)
    return reply.ok(tried, settled, flow.number(f, 'stuck'), on or '')
  end,
}

define {
  name = 'ff_ack_cancel_member',
  doc = 'Takes a member off the list of those that could not be cancelled.',
  flags = { 'allow-oom' },
  args = { arg.uuid('flow_id'), arg.execution('execution_id') },
  gives = { OK = {}, flow_not_found = {} },
  run = function(p, a, _, w)
    local f = flow.read(p, a.flow_id)
    if not f then return reply.refuse('flow_not_found') end
    flow.unstick(w, f, a.execution_id)
    return reply.ok()
  end,
}

return true
