-- Queues: walking a lane's claimable executions from the best on, for a worker that can do certain
-- kinds of work and has certain capabilities.

local blob = require('model.blob')
local limit = require('kernel.limit')
local record = require('model.record')
local capability = require('model.capability')
local claim = require('model.claim')
local ending = require('model.ending')
local flow = require('model.flow')
local state = require('model.state')

local queue = {}

-- An entry of the queue whose record does not belong there: somebody wrote around the library.
-- It is removed, so that it cannot block the queue.
local function belongs(w, key, uuid, x)
  if x and state.CLAIMABLE[x.state] and not x.grant_expires_at then return true end
  w[#w + 1] = { 'ZREM', key, uuid }
  return false
end

-- Nobody does work that its flow ends, although its turn has not come.
local function end_if_stopped(w, p, x, now)
  local f = flow.stopped(p, x)
  if not f then return false end
  ending.end_member(w, x, now, f)
  return true
end

-- Nobody can do work whose input is gone.
local function fail_if_lost(w, x, now)
  if not blob.lost(x, 'payload') then return false end
  record.set(x, 'failure_reason', 'payload_lost')
  record.set(x, 'failure_category', 'data_lost')
  ending.finish(w, x, now, 'failed', 'payload_lost')
  return true
end

local function eligible(x, a, has, now)
  return (not a.kinds or a.kinds[x.kind]) and claim.in_time(x, now)
    and not capability.missing(x.capabilities, has)
end

-- Calls `visit` with each execution the worker could take, best first, until it answers false or
-- the bound is reached. `step` is how many will probably do. Gives how many of the queue's entries
-- to skip in order to go on, once what was visited is gone from it; the empty text at its end.
-- What is in a state that a newer version brought is left alone and does not count.
function queue.walk(w, p, a, has, now, step, visit)
  local key, from, gone, strange = p.queue .. a.lane, a.skip or 0, 0, 0
  local bound = from + limit.claim_scan_max
  while from < bound + math.min(strange, limit.strange_scan_max) do
    local page = redis.call('ZRANGE', key, from, from + step - 1)
    for i = 1, #page do
      local x = record.read(p, page[i])
      if x and not state.known(x.state) then
        strange = strange + 1
      elseif not belongs(w, key, page[i], x) then
        gone = gone + 1
      elseif eligible(x, a, has, now) then
        gone = gone + 1
        if not end_if_stopped(w, p, x, now) and not fail_if_lost(w, x, now)
          and not visit(x) then
          return from + i - gone
        end
      end
    end
    if #page < step then return '' end
    from, step = from + step, math.max(step, 32)
  end
  return from - gone
end

return queue
