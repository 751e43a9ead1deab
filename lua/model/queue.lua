-- Queues: walking a lane's claimable executions from the best on, for a worker with certain
-- capabilities.

local limit = require('kernel.limit')
local record = require('kernel.record')
local capability = require('model.capability')
local claim = require('model.claim')
local state = require('model.state')

local queue = {}

-- An entry of the queue whose record does not belong there: somebody wrote around the library.
-- It is removed, so that it cannot block the queue.
local function belongs(w, key, uuid, x)
  if x and state.CLAIMABLE[x.state] and not x.grant_expires_at then return true end
  w[#w + 1] = { 'ZREM', key, uuid }
  return false
end

-- Calls `visit` with each execution the worker could take, best first, until it answers false or
-- the bound is reached. `step` is how many will probably do.
function queue.walk(w, p, lane, has, now, step, visit)
  local key, from = p.queue .. lane, 0
  while from < limit.claim_scan_max do
    local page = redis.call('ZRANGE', key, from, from + step - 1)
    for i = 1, #page do
      local x = record.read(p, page[i])
      if belongs(w, key, page[i], x) and claim.in_time(x, now)
        and not capability.missing(x.capabilities, has) and not visit(x) then
        return
      end
    end
    if #page < step then return end
    from, step = from + step, math.max(step, 32)
  end
end

return queue
