-- The next task: what a worker takes in the very call that ends the one it had. It names a queue,
-- or none; what the end itself made claimable, such as the next step of a flow, it may take too.

local arg = require('kernel.arg')
local limit = require('kernel.limit')
local reply = require('kernel.reply')
local writes = require('kernel.writes')
local claim = require('model.claim')
local index = require('model.index')
local lane = require('model.lane')
local lease = require('model.lease')
local need = require('model.need')
local pick = require('model.pick')
local queue = require('model.queue')

local next_task = {}

-- The arguments, behind those of the function that ends a task.
function next_task.args(args)
  local more = {
    arg.label('lane', limit.lane_bytes_max),
    arg.text('capabilities', limit.capabilities_bytes_max),
    claim.ttl(),
    arg.uuid('next_lease_id'),
    queue.need(),
    queue.score_max(),
    arg.optional(arg.labels('kinds', limit.kind_bytes_max, limit.kinds_max)),
    arg.optional(arg.labels('namespaces', limit.namespace_bytes_max, limit.namespaces_max)),
  }
  for i = 1, #more do args[#args + 1] = more[i] end
  return lease.args(args)
end

local function with_claims(values)
  values[#values + 1], values[#values + 2] = 'claims', 'next_score'
end

-- What such a function may answer: behind the values of the end, what was taken.
function next_task.gives(own)
  with_claims(own.OK)
  with_claims(own.DUPLICATE)
  own.invalid_capabilities = { 'text' }
  own.capability_mismatch = { 'missing' }
  return lease.gives(own)
end

-- The queue that the worker names, and those of its lane that this call put something into.
local function names(w, a, has)
  local prefix, list = a.lane .. ':', {}
  if a.need then list[1] = prefix .. a.need end
  index.each_joined(w, function(name)
    if name ~= list[1] and string.sub(name, 1, #prefix) == prefix
      and need.can_take(string.sub(name, #prefix + 1), a, has) then
      list[#list + 1] = name
    end
  end)
  return list
end

-- Who ended the task takes the next one. What the end has changed is written first, so that it is
-- found.
local function take(w, p, a, has, x, now)
  writes.flush(w)
  if not x.worker_id or not x.worker_instance_id or lane.is_paused(p, a.lane) then
    return { claim.PLAIN }, ''
  end
  a.worker_id, a.worker_instance_id = x.worker_id, x.worker_instance_id
  -- That of the attempt which ended: the next one goes by its own lease.
  a.attempt_id = nil
  return pick.best(w, p, a, names(w, a, has), { a.next_lease_id }, now)
end

-- Ends a task by `finish`, which gives an answer and the execution, and takes the next one. What
-- the worker can do is checked before anything is written. Whoever asks again is given what the
-- first call took.
function next_task.follow(w, p, a, now, finish)
  local has, refusal = queue.worker(a)
  if refusal then return refusal end
  local answer, x = finish()
  local claims, next_score
  local word = reply.word(answer)
  if word == 'OK' then
    claims, next_score = take(w, p, a, has, x, now)
  elseif word == 'DUPLICATE' then
    local before = pick.taken_before(p, nil, { a.next_lease_id }, a.lease_ttl_ms, now)
    claims, next_score = pick.joined(before), ''
  else
    return answer
  end
  answer[#answer + 1], answer[#answer + 2] = claims, next_score
  return answer
end

return next_task
