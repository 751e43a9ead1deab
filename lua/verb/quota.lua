-- Quotas: policies that limit how many executions with the same key begin within a window of time,
-- and how many run at a time; and the places that leases take under them (model/quota.lua).

local arg = require('kernel.arg')
local define = require('kernel.define').define
local json = require('kernel.json')
local keys = require('kernel.keys')
local limit = require('kernel.limit')
local number = require('kernel.number')
local prepare = require('kernel.define').prepare
local reply = require('kernel.reply')
local batch = require('model.batch')
local fact = require('model.fact')
local gate = require('model.gate')
local quota = require('model.quota')

local QUOTAS = { keys.QUOTAS }

local function policy_args()
  return {
    arg.uuid('quota_policy_id'),
    arg.optional(arg.int('window_seconds', 1, limit.quota_window_seconds_max)),
    arg.optional(arg.int('max_requests_per_window', 1, limit.quota_rate_max)),
    arg.optional(arg.int('max_concurrent', 1, limit.quota_concurrent_max)),
    arg.optional(arg.int('jitter_ms', 0, limit.quota_jitter_ms_max), 0),
  }
end

-- Why these are no limits; nil if they are.
local function wrong(a)
  local text
  if not a.max_requests_per_window and not a.max_concurrent then
    text = 'one of max_requests_per_window and max_concurrent is needed'
  elseif a.max_requests_per_window and not a.window_seconds then
    text = 'max_requests_per_window needs window_seconds'
  elseif a.window_seconds and not a.max_requests_per_window then
    text = 'window_seconds needs max_requests_per_window'
  end
  return text and reply.refuse('invalid_quota_spec', text)
end

-- What is stored of a policy is what its arguments say?
local function is_equal(key, a)
  local found = redis.call('HMGET', key, unpack(quota.FIELDS))
  for i = 1, #quota.FIELDS do
    if (tonumber(found[i]) or false) ~= a[quota.FIELDS[i]] then return false end
  end
  return true
end

local function write(w, key, a, name, now)
  local command, absent = { 'HSET', key, name, number.text(now) }, { 'HDEL', key }
  for i = 1, #quota.FIELDS do
    local field = quota.FIELDS[i]
    if a[field] then
      command[#command + 1], command[#command + 2] = field, number.text(a[field])
    else
      absent[#absent + 1] = field
    end
  end
  w[#w + 1] = command
  if absent[3] then w[#w + 1] = absent end
end

define {
  name = 'ff_create_quota_policy',
  doc = 'Makes a policy that limits the rate, the concurrency or both of each of its keys.',
  families = QUOTAS,
  flags = { 'allow-oom' },
  args = policy_args(),
  gives = {
    OK = { 'quota_policy_id' },
    ALREADY_SATISFIED = { 'quota_policy_id' },
    invalid_quota_spec = { 'text' },
    quota_attach_conflict = {},
  },
  run = function(p, a, now, w)
    local key, refusal = p.policy .. a.quota_policy_id, wrong(a)
    if refusal then return refusal end
    if redis.call('HEXISTS', key, 'created_at') == 1 then
      if not is_equal(key, a) then return reply.refuse('quota_attach_conflict') end
      return reply.already(a.quota_policy_id)
    end
    write(w, key, a, 'created_at', now)
    -- A policy of this id may have been there before, and somebody may wait for it.
    quota.look_at_all(w, p, a.quota_policy_id, now)
    return reply.ok(a.quota_policy_id)
  end,
}

define {
  name = 'ff_update_quota_policy',
  doc = 'Gives a policy other limits; who may pass now is let pass at once.',
  families = QUOTAS,
  flags = { 'allow-oom' },
  args = policy_args(),
  gives = {
    OK = { 'quota_policy_id' },
    ALREADY_SATISFIED = { 'quota_policy_id' },
    quota_policy_not_found = {},
    invalid_quota_spec = { 'text' },
  },
  run = function(p, a, now, w)
    local key, refusal = p.policy .. a.quota_policy_id, wrong(a)
    if redis.call('HEXISTS', key, 'created_at') == 0 then
      return reply.refuse('quota_policy_not_found')
    end
    if refusal then return refusal end
    if is_equal(key, a) then return reply.already(a.quota_policy_id) end
    write(w, key, a, 'changed_at', now)
    quota.look_at_all(w, p, a.quota_policy_id, now)
    return reply.ok(a.quota_policy_id)
  end,
}

define {
  name = 'ff_delete_quota_policy',
  doc = 'Removes a policy: its limits do not hold any more, and who waits for it is let pass.',
  families = QUOTAS,
  flags = { 'allow-oom' },
  args = { arg.uuid('quota_policy_id') },
  gives = { OK = {}, ALREADY_SATISFIED = {} },
  run = function(p, a, now, w)
    local key = p.policy .. a.quota_policy_id
    if redis.call('HEXISTS', key, 'created_at') == 0 then return reply.already() end
    w[#w + 1] = { 'DEL', key }
    quota.look_at_all(w, p, a.quota_policy_id, now)
    return reply.ok()
  end,
}

local function spec_text(a)
  local parts = {}
  for i = 1, #quota.FIELDS do
    local field = quota.FIELDS[i]
    if a[field] then parts[#parts + 1] = json.quoted(field) .. ':' .. number.text(a[field]) end
  end
  return '{' .. table.concat(parts, ',') .. '}'
end

define {
  name = 'ff_note_quota_policy',
  doc = 'Makes a policy known to all partitions, so that executions can be created under it.',
  flags = { 'allow-oom' },
  args = policy_args(),
  gives = fact.GIVES,
  run = function(p, a, now, w)
    -- Without limits it is a policy that is gone.
    local text = (a.max_requests_per_window or a.max_concurrent) and spec_text(a) or ''
    return fact.change(w, p, now, quota.FACT .. a.quota_policy_id, text)
  end,
}

local KEY = { arg.uuid('quota_policy_id'), arg.utf8('quota_key', limit.quota_key_bytes_max) }

local POLICY = { 'window_seconds', 'max_requests_per_window', 'max_concurrent', 'jitter_ms',
  'created_at', 'changed_at' }

define {
  name = 'ff_describe_quota_policy',
  doc = 'Tells the limits of a policy, and how one of its keys stands.',
  families = QUOTAS,
  flags = { 'no-writes' },
  args = { KEY[1], KEY[2] },
  gives = {
    OK = { 'policy', 'keys_awaited', 'running', 'in_window', 'partitions_waiting', 'opens_at',
      'longest' },
    quota_policy_not_found = {},
  },
  run = function(p, a, now)
    local key = p.policy .. a.quota_policy_id
    local policy = quota.read(p, a.quota_policy_id)
    if not policy then return reply.refuse('quota_policy_not_found') end
    local name = gate.quota_name(a.quota_policy_id, a.quota_key)
    local row = redis.call('HMGET', key, unpack(POLICY))
    local in_window, opens_at = quota.window(p, policy, name, now)
    return reply.ok(reply.row(POLICY, row), redis.call('ZCARD', keys.awaited(key)),
      redis.call('ZCARD', p.holders .. name), in_window, redis.call('ZCARD', p.waiting .. name),
      opens_at or '', redis.call('ZRANGE', p.holders .. name, 0, limit.explained_holders_max - 1))
  end,
}

define {
  name = 'ff_list_quota_holders',
  doc = 'Lists who runs under a key of a policy, longest first, and which of its keys are awaited.',
  families = QUOTAS,
  flags = { 'no-writes' },
  args = { KEY[1], KEY[2], arg.int('limit', 1, limit.list_limit_max) },
  gives = { OK = { 'holders', 'keys_awaited' } },
  run = function(p, a)
    local name = gate.quota_name(a.quota_policy_id, a.quota_key)
    local awaited = redis.call('ZRANGE', keys.awaited(p.policy .. a.quota_policy_id), 0,
      a.limit - 1)
    -- What a gate is called behind the letter, the id and two colons.
    for i = 1, #awaited do awaited[i] = string.sub(awaited[i], 40) end
    return reply.ok(redis.call('ZRANGE', p.holders .. name, 0, a.limit - 1, 'WITHSCORES'), awaited)
  end,
}

-- The id of an execution, which lives in another partition than this one.
local function execution()
  return arg.custom('execution_id', function(text)
    local uuid = string.match(text, '^{fp:%d+}:(.*)$')
    if not uuid or #uuid ~= 36 or #text > 48 then
      return nil, 'must be the id of an execution, as in {fp:7}:<uuid>'
    end
    return text
  end)
end

local function epoch() return arg.int('lease_epoch', 1, limit.timestamp_ms_max) end

define {
  name = 'ff_check_admission_and_record',
  doc = 'Lets a lease pass a key of a policy if its limits allow that, and gives it a place.',
  families = QUOTAS,
  flags = { 'allow-oom' },
  args = { KEY[1], KEY[2], execution(), epoch(),
    arg.int('lease_expires_at', 0, limit.timestamp_ms_max) },
  gives = {
    ADMITTED = {},
    ALREADY_ADMITTED = {},
    RATE_EXCEEDED = { 'retry_after_ms', 'opens_at' },
    CONCURRENCY_EXCEEDED = {},
    quota_policy_not_found = {},
    stale_lease = {},
    lease_expired = {},
  },
  run = function(p, a, now, w)
    local policy = quota.read(p, a.quota_policy_id)
    if not policy then return reply.refuse('quota_policy_not_found') end
    local name = gate.quota_name(a.quota_policy_id, a.quota_key)
    local outcome, opens_at = quota.ask(w, p, policy, name, a, now)
    if outcome == 'RATE_EXCEEDED' then
      return { 1, outcome, math.max(opens_at - now, 0), opens_at }
    end
    return { string.find(outcome, '^%u') and 1 or 0, outcome }
  end,
}

local RELEASE = prepare { KEY[1], KEY[2], execution(), epoch(), arg.int('used', 0, 1) }

define {
  name = 'ff_release_admission',
  doc = 'Gives back the places of leases that are over; tells what was opened for others by that.',
  families = QUOTAS,
  flags = { 'allow-oom' },
  args = { batch.items(5) },
  gives = { OK = { 'released', 'openings' }, ALREADY_SATISFIED = { 'released', 'openings' } },
  run = function(p, a, now, w)
    local released, gates = 0, {}
    local refusal = batch.each(RELEASE, a.items, p, now, w, function(r)
      local name = gate.quota_name(r.quota_policy_id, r.quota_key)
      if not quota.release(w, p, name, r.execution_id, r.lease_epoch, r.used == 1) then return end
      released = released + 1
      batch.note(gates, name)
    end)
    if refusal then return refusal end
    if released == 0 then return reply.already(0, {}) end
    return reply.ok(released, batch.open_all(w, p, gates, now))
  end,
}

local FORGET = prepare { KEY[1], KEY[2], execution() }

define {
  name = 'ff_forget_admission',
  doc = 'Forgets what is known of executions that are gone.',
  families = QUOTAS,
  flags = { 'allow-oom' },
  args = { batch.items(3) },
  gives = { OK = {} },
  run = function(p, a, now, w)
    return batch.each(FORGET, a.items, p, now, w, function(f)
      quota.forget(w, p, gate.quota_name(f.quota_policy_id, f.quota_key), f.execution_id)
    end) or reply.ok()
  end,
}

return true
