-- Inputs: what upstreams of a flow pass to a member. They are not copied: the member lists whose
-- results they are, by name, in the order in which they came, until it may run.

local keys = require('kernel.keys')
local limit = require('kernel.limit')
local blob = require('model.blob')
local record = require('model.record')

local input = {}

-- An input is told as name, execution, whether its bytes follow, and the bytes.

-- The upstream and the name; nil for what cannot be read.
local function parse(text)
  local uuid, name = string.match(text, '^([%x%-]+):(.*)$')
  if uuid and #uuid == 36 then return uuid, name end
  return nil
end

local read_result = record.reader { 'result', 'result2', 'result3', 'result4' }

local function result_of(p, uuid)
  local x = read_result(p, uuid)
  return x and blob.get(x, 'result')
end

-- What a claim brings along: the first inputs, each with its bytes while they fit. Gives them, and
-- how many bytes they are.
function input.brought(p, x)
  local list, out, bytes = redis.call('LRANGE', keys.inputs(x.key), 0, limit.claim_inputs_max - 1),
    {}, 0
  for i = 1, #list do
    local uuid, name = parse(list[i])
    local value = uuid and result_of(p, uuid)
    local fits = value and bytes + #value <= limit.claim_inputs_bytes
    if uuid then
      out[#out + 1], out[#out + 2] = name, p.tag .. uuid
      out[#out + 1], out[#out + 2] = fits and 1 or 0, fits and value or ''
    end
    if fits then bytes = bytes + #value end
  end
  return out, bytes
end

-- So many inputs from a place on, each with its bytes, until they are more than `bytes_max`; the
-- first is told however large. Gives them, and where to go on; nil at the end.
function input.page(p, x, from, most, bytes_max)
  local list, out, bytes = redis.call('LRANGE', keys.inputs(x.key), from, from + most - 1), {}, 0
  for i = 1, #list do
    local uuid, name = parse(list[i])
    local value = uuid and result_of(p, uuid)
    bytes = bytes + (value and #value or 0)
    if i > 1 and bytes > bytes_max then return out, from + i - 1 end
    if uuid then
      out[#out + 1], out[#out + 2] = name, p.tag .. uuid
      out[#out + 1], out[#out + 2] = value and 1 or 0, value or ''
    end
  end
  return out, #list == most and from + most or nil
end

-- The bytes of the first input, however many.
function input.first(p, x)
  local one = redis.call('LRANGE', keys.inputs(x.key), 0, 0)[1]
  local uuid = one and parse(one)
  return uuid and result_of(p, uuid) or ''
end

return input
