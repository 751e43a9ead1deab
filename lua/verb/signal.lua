-- Signals: somebody outside who has a waitpoint's token tells it something. Whether the execution
-- is suspended already or not yet is no business of the sender: the signal counts at once, or is
-- kept until the execution is suspended.

local arg = require('kernel.arg')
local define = require('kernel.define').define
local limit = require('kernel.limit')
local number = require('kernel.number')
local reply = require('kernel.reply')
local commit = require('model.commit')
local condition = require('model.condition')
local record = require('model.record')
local signal = require('model.signal')
local suspension = require('model.suspension')
local token = require('model.token')
local waitpoint = require('model.waitpoint')

-- The waitpoint that a sender means: by its id, by its key, or by both if they agree.
local function find(p, a)
  local id = a.waitpoint_id
    or a.waitpoint_key and waitpoint.by_key(p, a.execution_id, a.waitpoint_key)
  local one = id and waitpoint.outline(p, id)
  if one and a.waitpoint_key and one.key ~= a.waitpoint_key then return nil end
  return one
end

local function accept(w, x, one, a, now)
  local told = signal.store(w, one, a, now)
  record.set(x, 'signal_count', number.one_more(x.signal_count))
  if one.state == 'active' then return suspension.signalled(w, x, one, told, now) end
  commit(w, x, 'signalled', 'buffered_for_pending_waitpoint:' .. told.name)
  return 'buffered_for_pending_waitpoint'
end

-- Who proves to hold the token is told more than that something is wrong, and only then the whole
-- waitpoint is read; a repetition is recognised before anything else, because what it repeats may
-- be what ended the wait.
local function deliver(p, a, now, w)
  local one = find(p, a)
  local code = token.refusal(p, a.execution_id, one, a.waitpoint_token, now)
  if code then return reply.refuse(code) end
  one = waitpoint.read(p, one.id)
  local before = signal.repeated(one, a)
  if before then return reply.duplicate(before) end
  local x = record.read(p, a.execution_id)
  code = suspension.refusal(x, one, now)
  if code then return reply.refuse(code) end
  if signal.is_full(x, one, #a.payload) then return reply.refuse('signal_limit_exceeded') end
  return reply.ok(a.signal_id, accept(w, x, one, a, now))
end

local function signal_name()
  local inner = arg.printable('signal_name', limit.signal_name_bytes_max)
  return arg.custom('signal_name', function(text)
    if condition.is_name(text) then return text end
    local _, rule = inner.parse(text)
    return nil, rule or 'must not be *'
  end)
end

-- What kind of sender it says it is: the engine's own kinds prove something, so nobody else has
-- them.
local RESERVED = { approver = true, system = true }

local function source_type()
  local spec = arg.utf8('source_type', limit.category_bytes_max)
  local parse = spec.parse
  function spec.parse(text)
    if RESERVED[text] then return nil, 'must not be approver or system' end
    return parse(text)
  end
  return spec
end

local function args()
  return {
    arg.execution('execution_id'),
    arg.optional(arg.uuid('waitpoint_id')),
    arg.optional(arg.printable('waitpoint_key', limit.waitpoint_key_bytes_max)),
    arg.uuid('signal_id'),
    signal_name(),
    arg.utf8('signal_category', limit.category_bytes_max),
    source_type(),
    arg.utf8('source_identity', limit.signal_source_bytes_max),
    arg.bytes('payload', limit.signal_payload_bytes_max),
    arg.utf8('payload_encoding', limit.category_bytes_max),
    arg.utf8('idempotency_key', limit.idempotency_key_bytes_max),
    arg.utf8('correlation_id', limit.signal_source_bytes_max),
    arg.text('waitpoint_token', limit.token_bytes_max),
  }
end

local function gives()
  return {
    OK = { 'signal_id', 'effect' }, DUPLICATE = { 'signal_id' }, missing_token = {},
    invalid_token = {}, token_expired = {}, hmac_secret_not_initialized = {}, invalid_secret = {},
    waitpoint_closed = {}, target_not_signalable = {}, signal_limit_exceeded = {},
  }
end

define {
  name = 'ff_deliver_signal',
  doc = 'Gives a signal to a waitpoint; an execution whose condition it satisfies is resumed.',
  flags = {},
  args = args(),
  gives = gives(),
  run = deliver,
}

define {
  name = 'ff_buffer_signal_for_pending_waitpoint',
  doc = 'The same under its older name.',
  flags = {},
  args = args(),
  gives = gives(),
  run = deliver,
}

return true
