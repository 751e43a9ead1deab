-- Lanes: their settings are decided in the first partition, and installed in the others as facts.

local arg = require('kernel.arg')
local define = require('kernel.define').define
local json = require('kernel.json')
local limit = require('kernel.limit')
local reply = require('kernel.reply')
local fact = require('model.fact')
local lane = require('model.lane')
local tags = require('model.tags')

local function partitions(p) return tonumber(redis.call('HGET', p.deployment, 'flow') or '1') end

local function wrong_weights(value)
  if type(value) ~= 'table' or value.kind ~= 'object' then return 'must be an object' end
  if #value.keys > limit.lane_weights_max then
    return 'must be at most ' .. limit.lane_weights_max
  end
  for i = 1, #value.keys do
    local weight = value.values[value.keys[i]]
    if type(weight) ~= 'number' or weight % 1 ~= 0 or weight < 1
      or weight > limit.lane_weight_max then
      return 'must be whole numbers from 1 to ' .. limit.lane_weight_max
    end
  end
  return nil
end

-- The weights that a text tells; or nil and what is wrong with it.
local function read_weights(text)
  local value, malformed = json.read(text)
  local rule = malformed or wrong_weights(value)
  if rule then return nil, 'weights_json ' .. rule end
  return value
end

-- What only a fair lane has; gives what is wrong, if anything is.
local function set_shares(a, to, now)
  if a.order == 'in_order' then
    to.order, to.fair_by, to.fair_since, to.weights = nil, nil, nil, nil
  elseif a.order == 'fair' and to.order ~= 'fair' then
    to.order, to.fair_by, to.fair_since = 'fair', 'namespace', now
  end
  if (a.fair_by or a.weights_json ~= '') and to.order ~= 'fair' then
    return 'fair_by and weights_json are of fair lanes'
  end
  if a.fair_by then to.fair_by = a.fair_by end
  if a.weights_json == '' then return nil end
  local weights, wrong = read_weights(a.weights_json)
  if wrong then return wrong end
  to.weights = #weights.keys > 0 and weights or nil
  return nil
end

local function set_limit(p, a, to)
  if not a.waiting_max then return end
  to.waiting_max, to.partition_max = nil, nil
  if a.waiting_max == 0 then return end
  to.waiting_max = a.waiting_max
  to.partition_max = math.floor((a.waiting_max - 1) / partitions(p)) + 1
end

-- One is the share of every lane that nobody has set.
local function set_claim_weight(a, to)
  if a.claim_weight then to.claim_weight = a.claim_weight > 1 and a.claim_weight or nil end
end

local function copy(settings)
  local to = {}
  for name, value in pairs(settings) do to[name] = value end
  return to
end

local function is_sharer(text)
  if text == 'namespace' or not tags.wrong_name(text) then return text end
  return nil, 'must be namespace or the name of a tag, as in team.name'
end

define {
  name = 'ff_set_lane',
  doc = 'Changes settings of a lane; what is not given stays as it is.',
  flags = { 'allow-oom' },
  args = {
    arg.label('lane', limit.lane_bytes_max),
    arg.optional(arg.int('paused', 0, 1)),
    arg.optional(arg.int('waiting_max', 0, limit.lane_waiting_max)),
    arg.optional(arg.choice('order', { 'in_order', 'fair' })),
    arg.optional(arg.custom('fair_by', is_sharer)),
    arg.utf8('weights_json', limit.fact_bytes_max),
    arg.optional(arg.int('claim_weight', 1, limit.lane_weight_max)),
  },
  gives = fact.GIVES,
  run = function(p, a, now, w)
    local to = copy(lane.settings(p, a.lane))
    if a.paused == 1 then to.paused_at = to.paused_at or now end
    if a.paused == 0 then to.paused_at = nil end
    set_limit(p, a, to)
    set_claim_weight(a, to)
    local wrong = set_shares(a, to, now)
    if wrong then return reply.refuse('invalid_input', wrong) end
    return fact.change(w, p, now, lane.fact(a.lane), lane.text(to))
  end,
}

return true
