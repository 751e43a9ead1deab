-- Requests: a change from outside, which no lease protects, names itself by an id. So its
-- repetition is recognised, also when somebody else changed the execution in between. The latest
-- few are kept.

local arg = require('kernel.arg')
local record = require('model.record')

local request = {}

local KEPT = 3

function request.arg() return arg.optional(arg.uuid('request_id')) end

-- Enough of an id to tell requests of one execution apart, so that all fit into one short value.
local function short(id) return string.sub(id, 1, 8) .. string.sub(id, 25) end

-- Was this very request carried out before?
function request.seen(x, a)
  return a.request_id and x.requests
    and string.find(x.requests, short(a.request_id), 1, true) ~= nil
end

-- Remembers that the request is carried out now.
function request.note(x, a)
  if not a.request_id then return end
  local kept = { short(a.request_id) }
  for id in string.gmatch(x.requests or '', '%S+') do
    if #kept < KEPT then kept[#kept + 1] = id end
  end
  record.set(x, 'requests', table.concat(kept, ' '))
end

return request
