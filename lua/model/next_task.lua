-- The next task: what a worker takes in the very call that ends the one it had. It names a queue,
-- or none; what the end itself made claimable, such as the next step of a flow, it may take too.

local arg = require('kernel.arg')
local batch = require('kernel.batch')
local define = require('kernel.define')
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

local MOST = limit.finish_batch_max

local function append(list, more)
  for i = 1, #more do list[#list + 1] = more[i] end
  return list
end

-- What may be taken, by whom: what stands behind `between` may be left out.
local function wanted(between)
  local args = {
    arg.label('lane', limit.lane_bytes_max),
    arg.text('capabilities', limit.capabilities_bytes_max),
    claim.ttl(),
  }
  return append(append(args, between), {
    queue.need(),
    queue.score_max(),
    arg.optional(arg.labels('kinds', limit.kind_bytes_max, limit.kinds_max)),
    arg.optional(arg.labels('namespaces', limit.namespace_bytes_max, limit.namespaces_max)),
  })
end

-- The arguments, behind those of the function that ends a task.
function next_task.args(args)
  return lease.args(append(args, wanted { arg.uuid('next_lease_id') }))
end

-- The arguments of a function that ends several: what their workers take, and the items.
function next_task.batch_args(bytes_max)
  return append(wanted {}, batch.args(bytes_max, MOST))
end

-- The arguments of each item: the last of them names the next lease.
function next_task.item_args(args)
  return define.prepare(lease.args(append(args, { arg.uuid('next_lease_id') })))
end

local function with_claims(values)
  values[#values + 1], values[#values + 2] = 'claims', 'next_score'
end

local function with_refusals(own)
  own.invalid_capabilities = { 'text' }
  own.capability_mismatch = { 'missing' }
  return own
end

-- What such a function may answer: behind the values of the end, what was taken.
function next_task.gives(own)
  with_claims(own.OK)
  with_claims(own.DUPLICATE)
  return lease.gives(with_refusals(own))
end

next_task.BATCH_GIVES = with_refusals { OK = { 'answers', 'claims', 'next_score' } }

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

-- What was ended by a call: the executions, the leases that their workers take next, and those
-- that were asked for by a call before this one.
local function nothing() return { ended = {}, leases = {}, before = {} } end

-- Notes what became of a task; gives the answer.
local function note(all, lease_id, answer, x)
  local word = reply.word(answer)
  if word == 'DUPLICATE' then
    all.before[#all.before + 1] = lease_id
  elseif word == 'OK' and x.worker_id and x.worker_instance_id then
    all.ended[#all.ended + 1], all.leases[#all.leases + 1] = x, lease_id
  end
  return answer
end

-- Who ended a task takes the next one. What the ends have changed is written, so that it is found.
local function take(w, p, a, has, all, now)
  if #all.ended == 0 or lane.is_paused(p, a.lane) then return {}, '' end
  -- That of the attempt which ended: the next one goes by its own lease.
  a.attempt_id = nil
  return pick.best(w, p, a, names(w, a, has), all.leases, now, function(i)
    local x = all.ended[i]
    a.worker_id, a.worker_instance_id = x.worker_id, x.worker_instance_id
  end)
end

-- Takes the next tasks; gives what the workers are told, and the best score that is left. Whoever
-- asks again is given what the first call took.
local function go_on(w, p, a, has, all, now)
  writes.flush(w)
  local rows = {}
  if #all.before > 0 then rows = pick.taken_before(p, nil, all.before, a.lease_ttl_ms, now) end
  local taken, next_score = take(w, p, a, has, all, now)
  return pick.joined(append(rows, taken)), next_score
end

-- Ends a task by `finish`, which gives an answer and the execution, and takes the next one. What
-- the worker can do is checked before anything is written.
function next_task.follow(w, p, a, now, finish)
  local has, refusal = queue.worker(a)
  if refusal then return refusal end
  local all, answer = nothing(), nil
  answer = note(all, a.next_lease_id, finish())
  if answer[1] == 1 then
    answer[#answer + 1], answer[#answer + 2] = go_on(w, p, a, has, all, now)
  end
  return answer
end

-- The same for several items. What an end means for others, such as the steps behind it, is written
-- before the next one is looked at; the ends of all others are written together.
function next_task.follow_all(w, p, a, now, specs, finish)
  local has, refusal = queue.worker(a)
  if refusal then return refusal end
  local all = nothing()
  writes.join(w)
  local answers, wrong = batch.each(p, a, now, specs, MOST, function(item)
    local answer, x = finish(item)
    if x and x.marked then writes.flush(w) end
    return note(all, item.next_lease_id, answer, x)
  end)
  if not answers then return wrong end
  return reply.ok(answers, go_on(w, p, a, has, all, now))
end

return next_task
