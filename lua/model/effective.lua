-- The policy that holds for an execution, as JSON: what its submission, its kind and the deployment
-- said when it was created, and what holds where none of them did.

local json = require('kernel.json')
local limit = require('kernel.limit')
local number = require('kernel.number')
local amount = require('model.amount')
local gate = require('model.gate')
local index = require('model.index')
local retry = require('model.retry')
local state = require('model.state')
local stream = require('model.stream')

local effective = {}

-- Names and their values as JSON in turn, of which those without a value are left out; nil if none
-- is left.
local function object(...)
  local words, parts = { ... }, {}
  for i = 1, select('#', ...), 2 do
    if words[i + 1] then parts[#parts + 1] = json.quoted(words[i]) .. ':' .. words[i + 1] end
  end
  return #parts > 0 and '{' .. table.concat(parts, ',') .. '}' or nil
end

local function list(words)
  local parts = {}
  for i = 1, #words do parts[i] = json.quoted(words[i]) end
  return #parts > 0 and '[' .. table.concat(parts, ',') .. ']' or nil
end

local function split(text)
  local words = {}
  for word in string.gmatch(text or '', '[^,]+') do words[#words + 1] = word end
  return words
end

local function count(text, default)
  local value = number.stored(text, default)
  return value and number.text(value)
end

local function quoted(text) return text and json.quoted(text) end

local function backoff(rule)
  if rule.type == 'fixed' then
    return object('type', '"fixed"', 'delay_ms', number.text(rule.first_ms))
  end
  return object('type', '"exponential"', 'initial_delay_ms', number.text(rule.first_ms),
    'max_delay_ms', number.text(rule.max_ms), 'multiplier', string.format('%g', rule.multiplier),
    'jitter', rule.jitter and 'true' or 'false')
end

local function retries(x)
  local rule = retry.rule(x)
  if not rule then return object('max_retries', '0') end
  return object('max_retries', number.text(rule.max_retries), 'backoff', backoff(rule),
    'retryable_categories', list(split(rule.categories)))
end

local function output(x)
  local rule = stream.rule(x)
  return object('durability_mode', json.quoted(rule.mode), 'retention_maxlen',
    number.text(rule.frames), 'retention_bytes', number.text(rule.bytes), 'retention_ttl_ms',
    rule.ttl_ms and number.text(rule.ttl_ms))
end

-- Unless somebody said how long, that is known when it is known how it ended.
local function retention(x)
  return count(x.retention_ms, state.ENDED[x.state] and index.retention_ms(x.state) or nil)
end

local function dedup(x)
  local until_ms = number.stored(x.remembered_until, nil)
  return until_ms and number.text(until_ms - number.stored(x.created_at, 0))
end

local function reserves(x)
  local words = {}
  for _, one in ipairs(amount.of_text(gate.reserves(x))) do
    words[#words + 1], words[#words + 2] = one.name, number.text(one.value)
  end
  return object(unpack(words))
end

function effective.text(x)
  return object(
    'retry_policy', retries(x),
    'timeout_policy', object('attempt_timeout_ms', count(x.attempt_timeout_ms),
      'execution_deadline_ms', count(x.deadline_ms)),
    'suspension_policy', object('default_timeout_ms', count(x.suspend_timeout_ms),
      'timeout_behavior', quoted(x.suspend_behavior or 'fail')),
    'max_signals_per_execution', count(x.signals_max, limit.signals_default),
    'max_reclaim_count', count(x.reclaims_max, limit.reclaims_default),
    'max_replay_count', count(x.replays_max, limit.replays_default),
    'retention_ms', retention(x),
    'routing_requirements', object('required_capabilities', list(split(x.capabilities))),
    'ageing_ms', count(x.ageing_ms),
    'dedup_window_ms', dedup(x),
    'stream_policy', output(x),
    'budget_ids', list(gate.budget_ids(x)),
    'reserve_usage', reserves(x),
    'quota', object('policy_id', quoted(x.quota_id), 'key', x.quota_id and quoted(x.quota_key)))
end

return effective
