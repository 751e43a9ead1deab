-- Retries: the retry policy, compiled at creation into one short text, and the decision whether
-- and when a failed attempt is followed by another.

local number = require('kernel.number')

local retry = {}

-- max_retries:type:first_ms:max_ms:multiplier in thousandths:jitter:category,category
function retry.pack(rule)
  return table.concat({ number.text(rule.max_retries), rule.type, number.text(rule.first_ms),
    number.text(rule.max_ms), number.text(rule.multiplier_milli), rule.jitter and '1' or '0',
    table.concat(rule.categories, ',') }, ':')
end

-- How failures of an execution are retried; nil if they are not.
function retry.rule(x)
  local max, kind, first, top, multiplier, jitter, categories =
    string.match(x.retry_rule or '', '^(%d+):(%l+):(%d+):(%d+):(%d+):([01]):(.*)$')
  if not max then return nil end
  return { max_retries = tonumber(max), type = kind, first_ms = tonumber(first),
    max_ms = tonumber(top), multiplier = tonumber(multiplier) / 1000, jitter = jitter == '1',
    categories = categories }
end

local function admits(rule, category)
  if category == 'permanent' then return false end
  if rule.categories == '' then return true end
  return string.find(',' .. rule.categories .. ',', ',' .. category .. ',', 1, true) ~= nil
end

-- A number from 0 to 1 that depends on the execution and the try alone, so that both hosts agree
-- and a repeated call gives the same answer.
local function fraction(uuid, count)
  local hash = 5381 + count
  for i = 1, #uuid do hash = (hash * 33 + string.byte(uuid, i)) % 4294967296 end
  return hash / 4294967296
end

local function backoff_ms(rule, uuid, count)
  local delay = rule.first_ms
  -- A power can be infinite, and nothing times infinity is no number.
  if rule.type == 'exponential' and delay > 0 then
    delay = math.min(delay * rule.multiplier ^ count, rule.max_ms)
  end
  if rule.jitter then delay = delay * (0.5 + fraction(uuid, count) / 2) end
  return math.floor(delay)
end

-- How long to wait before the next attempt, or nil if this failure is the last. An unreadable
-- rule means no retry.
function retry.delay_ms(x, category)
  local rule, count = retry.rule(x), number.stored(x.retry_count, 0)
  if not rule or count >= rule.max_retries or not admits(rule, category) then return nil end
  return backoff_ms(rule, x.uuid, count)
end

return retry
