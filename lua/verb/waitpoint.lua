-- Waitpoints: opened before the execution is suspended on them, so that early signals wait there;
-- and closed again if it never is.

local arg = require('kernel.arg')
local define = require('kernel.define').define
local limit = require('kernel.limit')
local number = require('kernel.number')
local reply = require('kernel.reply')
local attempt = require('model.attempt')
local commit = require('model.commit')
local condition = require('model.condition')
local due = require('model.due')
local lease = require('model.lease')
local record = require('model.record')
local token = require('model.token')
local waitpoint = require('model.waitpoint')

-- A pending waitpoint that nobody was suspended on in time.
due.on[waitpoint.PREFIX] = function(w, p, member, now)
  local one = waitpoint.read(p, string.sub(member, #waitpoint.PREFIX + 1))
  -- What ended in this very call took it along.
  if one and one.command then return 'waitpoints' end
  local pending = one and one.state == 'pending'
  local at = pending and number.stored(one.expires_at, 0)
  if not pending or at > now then
    w[#w + 1] = pending and { 'ZADD', p.due, at, member } or { 'ZREM', p.due, member }
    return 'corrected'
  end
  local x = record.read(p, one.execution or '')
  waitpoint.close(w, p, x, one, now, 'never_committed')
  if x then commit(w, x, 'waitpoint_closed', 'never_committed:' .. one.id) end
  return 'waitpoints'
end

local OPENED = { 'waitpoint_id', 'waitpoint_key', 'waitpoint_token', 'expires_at' }

local function answer(status, p, one)
  local minted, code = token.mint(p, one)
  if code then return reply.refuse(code) end
  return status(one.id, one.key, minted, one.expires_at or '')
end

-- This very waitpoint was opened before and the answer was lost.
local function opened_before(p, x, a)
  local one = waitpoint.read(p, a.waitpoint_id)
  if not one or one.execution ~= x.uuid or one.key ~= a.waitpoint_key
    or one.opened_under ~= lease.proof(a) then
    return nil
  end
  return answer(reply.duplicate, p, one)
end

local function open(w, p, x, a, now)
  local list = waitpoint.list(x)
  if number.stored(x.pending_waitpoints, 0) >= limit.pending_waitpoints_max then
    return reply.refuse('waitpoint_limit_exceeded')
  end
  local code = waitpoint.refusal(p, list, a.waitpoint_id, a.waitpoint_key)
  if code then return reply.refuse(code) end
  local one = waitpoint.create(w, p, x, list, a.waitpoint_id, a.waitpoint_key, attempt.index(x),
    now)
  waitpoint.make_pending(w, p, x, one, math.min(now + a.expires_in_ms, limit.timestamp_ms_max))
  commit(w, x, 'waitpoint_opened', one.id)
  return answer(reply.ok, p, one)
end

define {
  name = 'ff_create_pending_waitpoint',
  doc = 'Opens a waitpoint for signals before the execution is suspended on it.',
  flags = {},
  args = lease.args {
    arg.uuid('waitpoint_id'),
    arg.printable('waitpoint_key', limit.waitpoint_key_bytes_max),
    arg.int('expires_in_ms', 1, limit.delay_ms_max),
  },
  gives = lease.gives {
    OK = OPENED, DUPLICATE = OPENED, waitpoint_already_exists = {}, waitpoint_limit_exceeded = {},
    hmac_secret_not_initialized = {}, invalid_secret = {},
  },
  run = function(p, a, now, w)
    local x = record.read(p, a.execution_id)
    if not x then return reply.refuse('execution_not_found') end
    return opened_before(p, x, a) or lease.guard(x, a, now) or open(w, p, x, a, now)
  end,
}

define {
  name = 'ff_close_waitpoint',
  doc = 'Closes a waitpoint that the execution will not be suspended on.',
  flags = { 'allow-oom' },
  args = lease.args {
    arg.uuid('waitpoint_id'),
    arg.optional(arg.printable('reason', limit.category_bytes_max), 'proactive_close'),
  },
  gives = lease.gives {
    OK = {}, ALREADY_SATISFIED = { 'reason' }, waitpoint_not_found = {}, waitpoint_active = {},
    invalid_waitpoint_for_execution = {},
  },
  run = function(p, a, now, w)
    local x = record.read(p, a.execution_id)
    if not x then return reply.refuse('execution_not_found') end
    local one = waitpoint.read(p, a.waitpoint_id)
    local own = one and one.execution == x.uuid
    if own and not waitpoint.is_open(one) then return reply.already(one.close_reason or '') end
    if own and one.state == 'active' then return reply.refuse('waitpoint_active') end
    local refusal = lease.guard(x, a, now)
    if refusal then return refusal end
    if not one then return reply.refuse('waitpoint_not_found') end
    if not own then return reply.refuse('invalid_waitpoint_for_execution') end
    waitpoint.close(w, p, x, one, now, a.reason)
    commit(w, x, 'waitpoint_closed', a.reason .. ':' .. one.id)
    return reply.ok()
  end,
}

local ROW = { 'waitpoint_id', 'waitpoint_key', 'state', 'waitpoint_token', 'required_signal_names',
  'created_at', 'activated_at', 'expires_at', 'suspension_id', 'reason', 'requested_by',
  'signal_count', 'condition', 'details' }

local function row(p, one)
  local minted, code = token.mint(p, one)
  if code then return nil, code end
  local tree = one.condition and condition.read(one.condition)
  return reply.row(ROW, { one.id, one.key, one.state, minted, tree and condition.names(tree) or {},
    one.created_at, one.since, one.expires_at or one.timeout_at, one.suspension, one.reason,
    one.requested_by, one.count or '0', one.condition, one.details })
end

define {
  name = 'ff_list_pending_waitpoints',
  doc = 'Lists the open waitpoints of an execution, each with a token under the current key.',
  flags = { 'no-writes' },
  args = { arg.execution('execution_id') },
  gives = { OK = { 'waitpoints' }, execution_not_found = {}, hmac_secret_not_initialized = {},
    invalid_secret = {} },
  run = function(p, a)
    local x = record.read(p, a.execution_id)
    if not x then return reply.refuse('execution_not_found') end
    local rows, list = {}, waitpoint.list(x)
    for i = 1, #list do
      local one = waitpoint.read(p, list[i].id)
      if one and waitpoint.is_open(one) then
        local listed, code = row(p, one)
        if code then return reply.refuse(code) end
        rows[#rows + 1] = listed
      end
    end
    return reply.ok(rows)
  end,
}

return true
