-- Inputs: what upstreams of a flow pass to a member. They are not copied: the member lists whose
-- results they are, by name, in the order in which they came, until it may run.

local keys = require('kernel.keys')
local limit = require('kernel.limit')
local blob = require('model.blob')
local record = require('model.record')

local input = {}

-- An input is told as name, execution, whether its bytes follow, and the bytes; here stand those of
-- the first.
input.WIDTH = 4
input.BYTES = 4

local function result_of(p, uuid)
  local x = record.read(p, uuid)
  return x and blob.get(x, 'result')
end

-- Inputs from a place on, each with its bytes while they fit; gives them, how many bytes they are,
-- and the place behind the last one whose bytes were brought.
function input.read(p, x, from, most, bytes_max)
  local list, out, bytes, told = redis.call('LRANGE', keys.inputs(x.key), from, from + most - 1),
    {}, 0, from
  for i = 1, #list do
    local uuid, name = string.match(list[i], '^([^:]*):(.*)$')
    local value = uuid and result_of(p, uuid)
    local fits = value and (bytes + #value <= bytes_max or bytes == 0 and most == 1)
    out[#out + 1], out[#out + 2] = name or '', p.tag .. (uuid or '')
    out[#out + 1], out[#out + 2] = fits and 1 or 0, fits and value or ''
    if fits then bytes, told = bytes + #value, from + i end
  end
  return out, bytes, told
end

-- What a claim brings along.
function input.brought(p, x)
  local out, bytes = input.read(p, x, 0, limit.claim_inputs_max, limit.claim_inputs_bytes)
  return out, bytes
end

return input
