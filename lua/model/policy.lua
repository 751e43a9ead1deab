-- Policies: read strictly from JSON and compiled, at creation, into the record's fields. A field
-- we do not know is an error: a typing mistake must not silently mean "no retries". What a policy
-- leaves unsaid is taken from others, field by field: how to wait between retries is one field.

local arg = require('kernel.arg')
local json = require('kernel.json')
local limit = require('kernel.limit')
local record = require('model.record')
local amount = require('model.amount')
local capability = require('model.capability')
local retry = require('model.retry')
local stream = require('model.stream')

local policy = {}

local function wrong(s, path, rule)
  if not s.wrong then s.wrong, s.code = path .. ': ' .. rule, 'invalid_policy_json' end
end

local function int(low, high, store)
  return function(s, value, path)
    if type(value) ~= 'number' or value % 1 ~= 0 or value < low or value > high then
      return wrong(s, path, string.format('must be a whole number from %.0f to %.0f', low, high))
    end
    store(s, value)
  end
end

-- Walks an object; `fields` says how each known field is checked. Null counts as absent.
local function object(fields)
  return function(s, value, path)
    if type(value) ~= 'table' or value.kind ~= 'object' then
      s.wrong, s.code = (path == '' and 'policy' or path) .. ':not_object', 'invalid_policy_json'
      return
    end
    for i = 1, #value.keys do
      local name = value.keys[i]
      local check = fields[name]
      local here = path == '' and name or path .. '.' .. name
      if not check then return wrong(s, string.sub(here, 1, 128), 'unknown field') end
      local inner = value.values[name]
      if inner ~= json.null or check == fields.required_capabilities then check(s, inner, here) end
      if s.wrong then return end
    end
  end
end

local function into(name) return function(s, value) s.out[name] = value end end
-- Where a limit may stand in two places, the smaller one holds.
local function least(name)
  return function(s, value) s.out[name] = math.min(s.out[name] or value, value) end
end
local function into_rule(name) return function(s, value) s.rule[name] = value end end
local function into_backoff(name) return function(s, value) s.rule.backoff[name] = value end end

local function categories(s, value, path)
  if type(value) ~= 'table' or value.kind ~= 'list' then return wrong(s, path, 'must be a list') end
  if #value > limit.retryable_categories_max then
    return wrong(s, path, 'must have at most ' .. limit.retryable_categories_max .. ' entries')
  end
  for i = 1, #value do
    local text = value[i]
    if type(text) ~= 'string' or #text < 1 or #text > limit.category_bytes_max
      or string.find(text, '[^\33-\126]') or string.find(text, '[,:]') then
      return wrong(s, path, 'entries must be words of at most ' .. limit.category_bytes_max
        .. ' printable characters without , and :')
    end
  end
  s.rule.categories = value
end

local function multiplier(s, value, path)
  local milli = type(value) == 'number' and value * 1000
  if not milli or value < 1 or value > 100 or math.abs(milli - math.floor(milli + 0.5)) > 1e-6 then
    return wrong(s, path, 'must be from 1 to 100 with at most three decimals')
  end
  s.rule.backoff.multiplier_milli = math.floor(milli + 0.5)
end

local function flag(s, value, path)
  if type(value) ~= 'boolean' then return wrong(s, path, 'must be true or false') end
  s.rule.backoff.jitter = value
end

local function skip() end

local FIXED = object {
  type = skip,
  delay_ms = int(0, limit.delay_ms_max, into_backoff('first_ms')),
}

local EXPONENTIAL = object {
  type = skip,
  initial_delay_ms = int(0, limit.delay_ms_max, into_backoff('first_ms')),
  max_delay_ms = int(0, limit.delay_ms_max, into_backoff('max_ms')),
  multiplier = multiplier,
  jitter = flag,
}

local function usual_backoff()
  return { type = 'exponential', first_ms = 1000, max_ms = 60000, multiplier_milli = 2000,
    jitter = false }
end

local function backoff(s, value, path)
  local kind = type(value) == 'table' and value.kind == 'object' and value.values.type
  s.rule.backoff = usual_backoff()
  if kind == 'fixed' then
    s.rule.backoff.type = 'fixed'
    return FIXED(s, value, path)
  end
  if kind == 'exponential' then
    EXPONENTIAL(s, value, path)
    if s.rule.backoff.first_ms > s.rule.backoff.max_ms then
      wrong(s, path .. '.initial_delay_ms', 'must be at most max_delay_ms')
    end
    return
  end
  wrong(s, path .. '.type', 'must be "fixed" or "exponential"')
end

local RETRY = object {
  max_retries = int(0, limit.max_retries_max, into_rule('max_retries')),
  backoff = backoff,
  retryable_categories = categories,
}

local function retry_policy(s, value, path)
  s.rule = {}
  RETRY(s, value, path)
end

local function required_capabilities(s, value)
  local joined, rule
  if type(value) ~= 'table' or value.kind ~= 'list' then
    rule = 'not_array'
  else
    joined, rule = capability.join(value)
  end
  if rule then
    s.wrong, s.code = 'required:' .. rule, 'invalid_capabilities'
  else
    s.out.capabilities = joined
  end
end

local function into_stream(name) return function(s, value) s.stream[name] = value end end

local function durability_mode(s, value, path)
  if not stream.MODES[value] then
    return wrong(s, path, 'must be "durable", "best_effort" or "summary"')
  end
  s.stream.mode = value
end

local STREAM = object {
  durability_mode = durability_mode,
  retention_maxlen = int(1, limit.stream_frames_max, into_stream('frames')),
  retention_bytes = int(1, limit.stream_bytes_max, into_stream('bytes')),
  retention_ttl_ms = int(0, limit.retention_ms_max, into_stream('ttl_ms')),
}

local function stream_policy(s, value, path)
  s.stream = {}
  STREAM(s, value, path)
end

local BEHAVIORS = { fail = 'fail', cancel = 'cancel', expire = 'expire', escalate = 'escalate',
  auto_resume = 'auto_resume_with_timeout_signal',
  auto_resume_with_timeout_signal = 'auto_resume_with_timeout_signal' }

local function behavior(s, value, path)
  if not BEHAVIORS[value] then
    return wrong(s, path,
      'must be fail, cancel, expire, auto_resume_with_timeout_signal or escalate')
  end
  s.out.suspend_behavior = BEHAVIORS[value]
end

-- A text of the policy that is part of keys.
local function quota_text(name)
  return function(s, value, path)
    if type(value) ~= 'string' or #value > limit.quota_key_bytes_max
      or string.find(value, '[%z\1-\31\127]') then
      return wrong(s, path, 'must be a text of at most ' .. limit.quota_key_bytes_max
        .. ' bytes without control characters')
    end
    s.quota[name] = value
  end
end

local function policy_id(s, value, path)
  if type(value) ~= 'string' or not arg.is_uuid(value) then
    return wrong(s, path, 'must be a lower-case hyphenated uuid')
  end
  s.quota.id = value
end

local QUOTA = object { policy_id = policy_id, key = quota_text('key'),
  key_tag = quota_text('key_tag') }

-- Under which policy, and with which key: a text, or the value of a tag.
local function quota(s, value, path)
  s.quota = {}
  QUOTA(s, value, path)
  if not s.quota.id then wrong(s, path .. '.policy_id', 'is needed') end
  if s.quota.key and s.quota.key_tag then
    wrong(s, path, 'must have key or key_tag, not both')
  end
end

-- Budgets by their ids, each once.
local function budget_ids(s, value, path)
  if type(value) ~= 'table' or value.kind ~= 'list' then return wrong(s, path, 'must be a list') end
  if #value > limit.budgets_max then
    return wrong(s, path, 'must have at most ' .. limit.budgets_max .. ' entries')
  end
  local list = {}
  for i = 1, #value do
    if type(value[i]) ~= 'string' or not arg.is_uuid(value[i]) then
      return wrong(s, path, 'entries must be lower-case hyphenated uuids')
    end
    list[i] = value[i]
  end
  s.out.budget_ids = list
end

-- How much of each dimension is reserved while an attempt runs.
local function reserve_usage(s, value, path)
  if type(value) ~= 'table' or value.kind ~= 'object' then
    return wrong(s, path, 'must be an object')
  end
  local words = {}
  for i = 1, #value.keys do
    local number_of = value.values[value.keys[i]]
    if type(number_of) ~= 'number' or number_of % 1 ~= 0 then
      return wrong(s, path, 'must have whole numbers')
    end
    words[2 * i - 1], words[2 * i] = value.keys[i], string.format('%.0f', number_of)
  end
  local list, rule = amount.list(words)
  if not list then return wrong(s, path, rule) end
  s.out.reserves = amount.text(list)
end

local duration = { 1, limit.delay_ms_max }

local POLICY = object {
  retry_policy = retry_policy,
  timeout_policy = object {
    attempt_timeout_ms = int(duration[1], duration[2], into('attempt_timeout_ms')),
    execution_deadline_ms = int(duration[1], duration[2], into('deadline_ms')),
    max_reclaim_count = int(0, limit.max_reclaims_max, least('reclaims_max')),
  },
  max_reclaim_count = int(0, limit.max_reclaims_max, least('reclaims_max')),
  suspension_policy = object {
    default_timeout_ms = int(duration[1], duration[2], into('suspend_timeout_ms')),
    timeout_behavior = behavior,
  },
  max_signals_per_execution = int(1, limit.signals_max, into('signals_max')),
  max_replay_count = int(0, limit.max_replays_max, into('replays_max')),
  retention_ms = int(0, limit.retention_ms_max, into('retention_ms')),
  ageing_ms = int(0, limit.delay_ms_max, into('ageing_ms')),
  dedup_window_ms = int(1, limit.dedup_ms_max, into('dedup_ms')),
  stream_policy = stream_policy,
  routing_requirements = object { required_capabilities = required_capabilities },
  quota = quota,
  budget_ids = budget_ids,
  reserve_usage = reserve_usage,
}

local NONE = {}

-- What the value of a JSON text says as a policy: only what it names; or nil, the code and what is
-- wrong.
function policy.say(value)
  local s = { out = {} }
  POLICY(s, value, '')
  if s.wrong then return nil, s.code, s.wrong end
  s.out.rule, s.out.stream, s.out.quota = s.rule, s.stream, s.quota
  return s.out
end

-- The same of a text.
function policy.read(text)
  if text == '' then return NONE end
  local value, malformed = json.read(text)
  if malformed then return nil, 'invalid_policy_json', 'malformed: ' .. malformed end
  return policy.say(value)
end

-- Adds what one says to what was said before it, which counts more.
local function add(all, said)
  for name, value in pairs(said) do
    if all[name] == nil then all[name] = value end
  end
  return all
end

-- The first of these that says something about a group of fields, and the others behind it.
local function merged(name, one, two, three)
  if not one[name] and not two[name] and not three[name] then return nil end
  return add(add(add({}, one[name] or NONE), two[name] or NONE), three[name] or NONE)
end

local function retry_rule(rule)
  local backoff = rule.backoff or usual_backoff()
  return retry.pack(add({ max_retries = rule.max_retries or 3,
    categories = rule.categories or NONE }, backoff))
end

-- Puts policies together field by field, the first one first, and compiles what holds.
function policy.compile(one, two, three)
  if one == NONE and two == NONE and three == NONE then return NONE end
  local rule, streams = merged('rule', one, two, three), merged('stream', one, two, three)
  local out = add(add(add({}, one), two), three)
  out.retry_rule = rule and retry_rule(rule)
  if streams then
    streams.mode = streams.mode or 'durable'
    out.stream_rule = stream.pack_rule(streams)
  end
  if out.capabilities == '' then out.capabilities = nil end
  return out
end

-- A policy that says nothing.
policy.NONE = NONE

local STORED = { 'attempt_timeout_ms', 'deadline_ms', 'reclaims_max', 'replays_max',
  'retention_ms', 'ageing_ms', 'capabilities', 'retry_rule', 'stream_rule', 'suspend_timeout_ms',
  'suspend_behavior', 'signals_max', 'quota_id', 'quota_key' }

function policy.store(x, compiled)
  if compiled == NONE then return end
  for i = 1, #STORED do
    local value = compiled[STORED[i]]
    if value ~= nil then record.set(x, STORED[i], value) end
  end
end

return policy
