-- Lanes: their settings, which are facts (model/fact.lua). A lane that nobody has set is open, in
-- order and without a limit, and costs nothing.

local json = require('kernel.json')
local number = require('kernel.number')
local writes = require('kernel.writes')
local fact = require('model.fact')
local need = require('model.need')

local lane, quoted = {}, json.quoted

local NAME = 'lane:'

-- The settings that are whole numbers, and those that are words.
local NUMBERS = { 'paused_at', 'waiting_max', 'partition_max', 'fair_since', 'claim_weight' }
local WORDS = { 'order', 'fair_by' }

local PLAIN = {}

-- The settings that a text tells; what is damaged counts as never set.
local read = fact.reader(function(text)
  local value = json.read(text)
  if type(value) ~= 'table' or value.kind ~= 'object' then return PLAIN end
  local settings, weights = {}, value.values.weights
  for i = 1, #NUMBERS do
    local found = value.values[NUMBERS[i]]
    if type(found) == 'number' then settings[NUMBERS[i]] = found end
  end
  for i = 1, #WORDS do
    local found = value.values[WORDS[i]]
    if type(found) == 'string' then settings[WORDS[i]] = found end
  end
  if type(weights) == 'table' and weights.kind == 'object' then settings.weights = weights end
  return settings
end)

-- The name of the fact about a lane.
function lane.fact(name) return NAME .. name end

-- The settings of a lane, which are not to be changed.
function lane.settings(p, name)
  local text = fact.get(p, NAME, name)
  return text and read(text) or PLAIN
end

-- Is nothing of the lane to be handed out?
function lane.is_paused(p, name) return lane.settings(p, name).paused_at ~= nil end

-- How many executions wait in the lane, in this partition.
function lane.depth(p, name)
  local needs, depth = need.list(p, name), 0
  for i = 1, #needs do depth = depth + redis.call('ZCARD', p.queue .. name .. ':' .. needs[i]) end
  return depth
end

-- Do as many wait as may?
function lane.is_full(p, name)
  local most = lane.settings(p, name).partition_max
  return most ~= nil and lane.depth(p, name) >= most
end

local function weights_text(weights)
  local names, parts = {}, {}
  for i = 1, #weights.keys do names[i] = weights.keys[i] end
  table.sort(names)
  for i = 1, #names do
    parts[i] = quoted(names[i]) .. ':' .. number.text(weights.values[names[i]])
  end
  return '{' .. table.concat(parts, ',') .. '}'
end

-- Settings as a text, the same for the same settings; empty if there are none.
function lane.text(settings)
  local parts = {}
  for i = 1, #NUMBERS do
    local value = settings[NUMBERS[i]]
    if value then parts[#parts + 1] = quoted(NUMBERS[i]) .. ':' .. number.text(value) end
  end
  for i = 1, #WORDS do
    local value = settings[WORDS[i]]
    if value then parts[#parts + 1] = quoted(WORDS[i]) .. ':' .. quoted(value) end
  end
  if settings.weights then parts[#parts + 1] = '"weights":' .. weights_text(settings.weights) end
  return #parts == 0 and '' or '{' .. table.concat(parts, ',') .. '}'
end

-- Tells those who wait for work what lies in the queues of a lane.
local function announce(w, p, name)
  local needs = need.list(p, name)
  for i = 1, #needs do
    local queue = name .. ':' .. needs[i]
    local head = redis.call('ZRANGE', p.queue .. queue, 0, 0, 'WITHSCORES')
    if head[1] then
      need.push(w, queue, tonumber(head[2]), redis.call('ZCARD', p.queue .. queue))
    end
  end
end

-- Who waits for work of a lane that is resumed is told of it, and of the share that a lane has of
-- the claims of those who take from several. Of one that is fair no longer, nobody need know who
-- was served.
fact.on.lane = function(w, p, name, old, new)
  local was, is = old ~= '' and read(old) or PLAIN, new ~= '' and read(new) or PLAIN
  if was.paused_at and not is.paused_at then announce(w, p, name) end
  if was.claim_weight ~= is.claim_weight then
    writes.push(w, p.ready_channel, 'weight:' .. number.text(is.claim_weight or 1) .. ':' .. name)
  end
  if was.order == 'fair' and is.order ~= 'fair' then w[#w + 1] = { 'UNLINK', p.shares .. name } end
end

return lane
