-- Creation: a new execution, claimable at once, after a delay, or as a member of a flow when its
-- turn comes; at most one per idempotency key.

local arg = require('kernel.arg')
local blob = require('model.blob')
local keys = require('kernel.keys')
local limit = require('kernel.limit')
local need = require('model.need')
local number = require('kernel.number')
local record = require('model.record')
local reply = require('kernel.reply')
local writes = require('kernel.writes')
local commit = require('model.commit')
local kind = require('model.kind')
local lane = require('model.lane')
local policy = require('model.policy')
local purge = require('model.purge')
local quota = require('model.quota')
local runnable = require('model.runnable')
local state = require('model.state')
local attachment = require('model.attachment')
local gate = require('model.gate')
local tags = require('model.tags')
local throttle = require('model.throttle')

local creation = {}

creation.ARGS = {
  arg.new_execution('execution_id'),
  arg.label('namespace', limit.namespace_bytes_max),
  arg.label('lane', limit.lane_bytes_max),
  arg.label('kind', limit.kind_bytes_max),
  arg.int('priority', 0, limit.priority_max),
  arg.text('creator', limit.creator_bytes_max),
  arg.text('policy_json', limit.policy_bytes_max),
  arg.bytes('payload', limit.payload_bytes_max),
  arg.optional(arg.moment('delay_until')),
  arg.optional(arg.moment('deadline_at')),
  arg.text('tags_json', limit.tags_bytes_max),
  arg.optional(arg.label('idempotency_key', limit.idempotency_key_bytes_max)),
  arg.optional(arg.int('dedup_ms', 1, limit.dedup_ms_max)),
  arg.text('content_digest', 64),
  arg.optional(arg.int('sent_ms_ago', 0, limit.sent_ms_ago_max)),
  arg.text('correlation_id', limit.correlation_id_bytes_max),
  throttle.arg(),
}

creation.GIVES = {
  OK = { 'execution_id', 'public_state' },
  DUPLICATE = { 'execution_id', 'public_state' },
  DEBOUNCED = { 'execution_id', 'public_state' },
  idempotency_conflict = { 'execution_id' },
  invalid_policy_json = { 'text' },
  invalid_capabilities = { 'text' },
  invalid_tag_key = { 'key' },
  too_many_needs = { 'lane', 'most' },
  quota_policy_not_found = {},
  lane_full = {},
}

local read_creation = record.reader { 'created_at', 'park_reason' }

-- The answer to an id that exists or was purged a moment ago: its state; nil if there is no such
-- record. A call that was sent again because its answer was lost finds what it created itself: what
-- is no older than its first send is new.
local function duplicate(p, a, uuid, now)
  local x = read_creation(p, uuid)
  local word = x and x.state or purge.outcome(p, uuid)
  if not word then return nil end
  local own = a.sent_ms_ago and uuid == a.execution_id
    and number.stored(x and x.created_at, 0) >= now - a.sent_ms_ago
  return (own and reply.ok or reply.duplicate)(p.tag .. uuid,
    state.public { state = word, park_reason = x and x.park_reason })
end

local function remembered_field(a) return a.namespace .. ':' .. a.idempotency_key end

-- The execution that an idempotency key stands for, while its window lasts.
local function remembered(p, a, now)
  if not a.idempotency_key then return nil end
  local text = redis.call('HGET', p.idempotency, remembered_field(a))
  if not text then return nil end
  local until_ms, uuid, digest = string.match(text, '^(%d+):([^:]+):(.*)$')
  if tonumber(until_ms) <= now then return nil end
  if digest ~= a.content_digest then return reply.refuse('idempotency_conflict', p.tag .. uuid) end
  return duplicate(p, a, uuid, now)
end

local function remember(w, p, a, until_ms)
  if not until_ms then return end
  local field = remembered_field(a)
  w[#w + 1] = { 'HSET', p.idempotency, field,
    number.text(until_ms) .. ':' .. a.execution_id .. ':' .. a.content_digest }
end

-- `0` means no deadline, as it does everywhere. A member's own time begins when it may run.
local function deadline(a, compiled, now, is_member)
  local given = a.deadline_at ~= 0 and a.deadline_at or nil
  local by_policy = not is_member and compiled.deadline_ms and now + compiled.deadline_ms
  if given and by_policy then return math.min(given, by_policy) end
  return given or by_policy
end

-- What is looked up most often comes first: the store searches a record from its beginning.
local put = record.setter { 'state', 'namespace', 'lane', 'kind', 'created_at' }

local function build(w, p, a, compiled, now, join)
  local x = record.new(p, a.execution_id)
  if join then join(x) end
  if a.delay_until then runnable.delay(x, a.delay_until, 'delay') end
  if a.throttle then throttle.join(w, x, a, now) end
  put(x, runnable.state(x, now), a.namespace, a.lane, a.kind, now)
  x.need_known = a.need_known
  if a.priority > 0 then record.set(x, 'priority', a.priority) end
  if a.creator ~= '' then record.set(x, 'creator', a.creator) end
  if a.correlation_id ~= '' then record.set(x, 'correlation_id', a.correlation_id) end
  local deadline_at = deadline(a, compiled, now, join)
  if deadline_at then record.set(x, 'deadline_at', deadline_at) end
  if compiled.deadline_ms and not join and a.deadline_at and a.deadline_at > 0 then
    record.set(x, 'deadline_given', a.deadline_at)
  end
  if a.idempotency_key then
    record.set(x, 'remembered_until',
      now + (a.dedup_ms or compiled.dedup_ms or limit.dedup_ms_default))
    blob.put(x, w, 'idempotency', a.idempotency_key)
  end
  policy.store(x, compiled)
  local budgets = attachment.of(w, p, a, compiled.budget_ids, x.flow_id)
  if budgets then gate.set_budgets(w, x, budgets, compiled.reserves or '') end
  blob.put(x, w, 'payload', a.payload)
  if a.policy_json ~= '' then blob.put(x, w, 'policy', a.policy_json) end
  return x
end

local function write(w, x, pairs_of_tags)
  if #pairs_of_tags > 0 then
    record.set(x, 'tagged', '1')
    w[#w + 1] = { 'HSET', keys.tags(x.key), unpack(pairs_of_tags) }
  end
  commit(w, x, 'created', x.delay_until and 'delayed')
end

-- The answer to a submission that another execution under its throttle's key stands for; nil if a
-- new one is made. What the call has created itself it finds first.
local function throttled(w, p, a, now)
  if not a.throttle then return nil end
  local wrong = throttle.wrong(a)
  if wrong then return reply.refuse('invalid_input', wrong) end
  local own = duplicate(p, a, a.execution_id, now)
  if own then return own end
  local x, word = throttle.instead(w, p, a, now)
  return x and { 1, word, p.tag .. x.uuid, state.public(x) }
end

-- A full lane takes nothing new; what is asked for again is answered as it was.
local function refused_by_lane(p, a, now)
  if not lane.is_full(p, a.lane) then return nil end
  return duplicate(p, a, a.execution_id, now) or reply.refuse('lane_full')
end

-- Enters the id into the list of all; nil if that was new, otherwise the answer. It is a write, so
-- nothing may be left that could be refused.
local function enlist(p, a, now)
  if redis.call('ZADD', p.all, 'NX', now, a.execution_id) == 1 then return nil end
  return duplicate(p, a, a.execution_id, now)
end

-- Whether the lane knows what the submission needs, or nil and a refusal if it cannot get to.
local function find_need(p, a, compiled)
  local key, text = p.needs .. a.lane, need.of_parts(a.namespace, a.kind, compiled.capabilities)
  if redis.call('SISMEMBER', key, text) == 1 then return true end
  if redis.call('SCARD', key) < limit.needs_max then return false end
  return nil, reply.refuse('too_many_needs', a.lane, limit.needs_max)
end

-- What the texts of a submission say: the compiled policy and the tags; or nil and a refusal.
-- What the policy leaves unsaid is taken from the kind, then from the deployment.
function creation.compile(p, a)
  local said, code, detail = policy.read(a.policy_json)
  if not said then return nil, reply.refuse(code, detail) end
  local tag_pairs
  tag_pairs, code, detail = tags.read(a.tags_json)
  if not tag_pairs then return nil, reply.refuse(code, detail) end
  local compiled, refusal = policy.compile(said, kind.said(p, a.kind)), nil
  a.need_known, refusal = find_need(p, a, compiled)
  if not refusal and compiled.quota then refusal = quota.fix(p, compiled, tag_pairs) end
  if refusal then return nil, refusal end
  return compiled, tag_pairs
end

-- Makes a member of a flow, of which everything was checked; `join` makes it one.
function creation.member(w, p, a, compiled, tag_pairs, now, join)
  writes.extend(w, 'ZADD', p.all, now, a.execution_id)
  local x = build(w, p, a, compiled, now, join)
  write(w, x, tag_pairs)
  return x
end

-- Creates an execution, or answers why not.
function creation.create(p, a, now, w)
  local compiled, tag_pairs = creation.compile(p, a)
  if not compiled then return tag_pairs end
  local before = remembered(p, a, now) or throttled(w, p, a, now)
    or refused_by_lane(p, a, now) or enlist(p, a, now)
  if before then return before end
  local x = build(w, p, a, compiled, now)
  write(w, x, tag_pairs)
  remember(w, p, a, x.remembered_until)
  return reply.ok(p.tag .. x.uuid, state.public(x))
end

return creation
