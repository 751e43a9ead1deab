-- Needs: what an execution asks of the worker that takes it, as one text: `namespace:kind`, and
-- behind another colon the capabilities it requires. What can be claimed is queued by lane and
-- need, so that a worker looks only at what it may take.

local number = require('kernel.number')
local writes = require('kernel.writes')
local capability = require('model.capability')

local need = {}

function need.of_parts(namespace, kind, capabilities)
  if not capabilities then return namespace .. ':' .. kind end
  return namespace .. ':' .. kind .. ':' .. capabilities
end

-- The need of an execution. A damaged record may lack a part of it.
function need.of(x) return need.of_parts(x.namespace or '', x.kind or '', x.capabilities) end

-- May a worker take what has this need? Empty sets of kinds and namespaces stand for any.
function need.can_take(text, a, has)
  local namespace, kind, required = string.match(text, '^([^:]*):([^:]*):?(.*)$')
  return namespace and (not a.namespaces or a.namespaces[namespace])
    and (not a.kinds or a.kinds[kind]) and not capability.missing(required, has)
end

-- The needs of what waits in a lane, in one order.
function need.list(p, lane)
  local needs = redis.call('SMEMBERS', p.needs .. lane)
  table.sort(needs)
  return needs
end

-- Notes that a lane has something of this need, and thereby that the partition has such a lane.
function need.note(p, x)
  if redis.call('SADD', p.needs .. x.lane, need.of(x)) == 1 then
    redis.call('ZADD', p.queued, 0, x.lane)
  end
end

-- The same for what is written later.
function need.note_late(w, item) need.note(w.p, item.x) end

local function forget_empty(w, item)
  local p, needs = w.p, w.p.needs .. item.lane
  if redis.call('EXISTS', p.queue .. item.lane .. ':' .. item.need) == 1 then return end
  redis.call('SREM', needs, item.need)
  if redis.call('EXISTS', needs) == 0 then redis.call('ZREM', p.queued, item.lane) end
end

-- A need whose queue is empty when all else is written is forgotten until somebody has it again.
function need.forget(w, lane, text)
  writes.last(w, { write = forget_empty, lane = lane, need = text })
end

-- The queues of a lane that are not empty, each with its need, the score of its head and its
-- length. The others are forgotten.
function need.heads(w, p, lane)
  local rows, needs = {}, need.list(p, lane)
  for i = 1, #needs do
    local queue = p.queue .. lane .. ':' .. needs[i]
    local head = redis.call('ZRANGE', queue, 0, 0, 'WITHSCORES')
    if head[1] then
      rows[#rows + 1] = { lane, needs[i], string.format('%.0f', tonumber(head[2])),
        redis.call('ZCARD', queue) }
    else
      need.forget(w, lane, needs[i])
    end
  end
  return rows, #needs
end

-- The capabilities that a need requires and a worker lacks; nil if it lacks none.
function need.missing(text, has)
  return capability.missing(string.match(text, '^[^:]*:[^:]*:(.*)$'), has)
end

-- Tells those who look for work, if they are several, what is the best of a queue after one of them
-- has taken from it; without a score if nothing is left.
function need.push_left(w, queue, score)
  local listeners = w.p.listeners
  if listeners < 2 then return end
  writes.push(w, w.p.ready_channel, 'left:' .. number.text(listeners) .. ':'
    .. (score and string.format('%.0f', score) or '') .. ':' .. queue)
end

-- Tells those who wait for work that so many joined a queue, none better than this score.
function need.push(w, queue, score, count)
  writes.push(w, w.p.ready_channel,
    number.text(count) .. ':' .. string.format('%.0f', score) .. ':' .. queue)
end

return need
