-- Decisions: the signals of approvers. Who they come from was verified before, so they need no
-- token; nobody else can send a signal of this source. The first decision of an approver stands.

local keys = require('kernel.keys')
local limit = require('kernel.limit')
local pack = require('kernel.pack')
local signal = require('model.signal')
local suspension = require('model.suspension')
local waitpoint = require('model.waitpoint')

local decision = {}

local SOURCE = 'approver'

local NAME, IDENTITY, ACCEPTED_AT = signal.NAME, signal.SOURCE_IDENTITY, signal.ACCEPTED_AT

-- The waitpoint on which approvers of this execution decide; nil if it is not one.
function decision.waitpoint(p, uuid, id)
  local one = waitpoint.read(p, id)
  return one and one.approval and one.execution == uuid and one or nil
end

-- Name and time of what an approver decided; nil if there is nothing.
function decision.made(one, approver)
  if not one.decisions then return nil end
  local key = keys.signals(one.path)
  local place = redis.call('HGET', key, 'd:' .. approver)
  local parts = place and pack.split(redis.call('HGET', key, place) or '')
  if not parts then return nil end
  return parts[NAME] or '', parts[ACCEPTED_AT] or '0'
end

local function numbers(one)
  local list = {}
  for text in string.gmatch(one.decisions or '', '%d+') do list[#list + 1] = text end
  return list
end

function decision.is_full(one) return #numbers(one) >= limit.approvers_max end

-- Takes a decision; gives its effect on the wait.
function decision.take(w, x, one, a, now)
  local told = signal.store(w, one, { signal_id = a.signal_id, signal_name = a.signal_name,
    signal_category = '', source_type = SOURCE, source_identity = a.approver,
    correlation_id = '', payload_encoding = '', idempotency_key = '', payload = '' }, now)
  w[#w + 1] = { 'HSET', keys.signals(one.path), 'd:' .. a.approver, told.number }
  local before = one.decisions
  waitpoint.set(w, one, { 'decisions', before and before .. ',' .. told.number or told.number })
  return suspension.signalled(w, x, one, told, now)
end

-- All decisions in their order: approver, name and time in turn.
function decision.list(one)
  local places, rows = numbers(one), {}
  if #places == 0 then return rows end
  local texts = redis.call('HMGET', keys.signals(one.path), unpack(places))
  for i = 1, #texts do
    local parts = texts[i] and pack.split(texts[i])
    if parts and parts[ACCEPTED_AT] then
      rows[#rows + 1], rows[#rows + 2] = parts[IDENTITY], parts[NAME]
      rows[#rows + 1] = parts[ACCEPTED_AT]
    end
  end
  return rows
end

-- Is it still open to those who have not decided? What a time has ended is over although nobody has
-- carried that out yet.
function decision.is_open(x, one, now) return suspension.refusal(x, one, now) == nil end

decision.ROW = { 'waitpoint_id', 'waitpoint_key', 'open', 'approval', 'requested_by', 'asked_at',
  'closes_at', 'closed_at', 'close_reason', 'decisions' }

-- What is known about an approval, for a reader.
function decision.row(x, one, now)
  local open = decision.is_open(x, one, now)
  return { one.id, one.key, open and 1 or 0, one.approval, one.requested_by or '',
    one.since or '0', one.timeout_at or '', one.closed_at or '',
    one.close_reason or '', decision.list(one) }
end

return decision
