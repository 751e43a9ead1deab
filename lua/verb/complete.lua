-- Complete: the holder finished; the execution ends in success. The next one may come with the
-- answer.

local arg = require('kernel.arg')
local batch = require('kernel.batch')
local blob = require('model.blob')
local define = require('kernel.define').define
local limit = require('kernel.limit')
local record = require('model.record')
local reply = require('kernel.reply')
local ending = require('model.ending')
local lease = require('model.lease')
local next_task = require('model.next_task')
local purge = require('model.purge')

local read = record.reader { 'lease_id', 'lease_epoch', 'lease_expires_at', 'namespace',
  'attempt_count', 'worker_instance_id', 'marked' }

-- The same, with all that the next lease is made of.
local read_worker = record.reader { 'lease_id', 'lease_epoch', 'lease_expires_at', 'namespace',
  'attempt_count', 'worker_instance_id', 'marked', 'worker_id' }

-- This very completion was done before, and the execution was replayed since.
local function completed_before(p, a)
  local x = record.read(p, a.execution_id)
  return lease.ended_as(x, a) == 'done'
end

-- Ends the execution; gives the answer, and the execution if it ended now.
local function complete(p, a, now, w, x)
  if not x then
    return purge.ended_as(p, a, '^success:') and reply.duplicate('completed')
      or reply.refuse('execution_not_found')
  end
  if x.state == 'success' and lease.matches(x, a) then return reply.duplicate('completed') end
  local refusal = lease.guard(x, a, now)
  if refusal then return completed_before(p, a) and reply.duplicate('completed') or refusal end
  blob.put(x, w, 'result', a.result)
  ending.finish(w, x, now, 'success', 'completed')
  return reply.ok('completed'), x
end

local ARGS = lease.args { arg.bytes('result', limit.result_bytes_max) }

local function complete_one(p, a, now, w)
  return (complete(p, a, now, w, read(p, a.execution_id)))
end

define {
  name = 'ff_complete_execution',
  doc = 'Ends the running attempt and its execution in success, with a result.',
  flags = { 'allow-oom' },
  args = ARGS,
  gives = lease.gives { OK = { 'public_state' }, DUPLICATE = { 'public_state' } },
  run = complete_one,
}

define {
  name = 'ff_complete_executions',
  doc = 'Ends several executions of one partition in success; each gets an answer of its own.',
  flags = { 'allow-oom' },
  args = batch.args(limit.result_bytes_max, limit.complete_batch_max),
  gives = batch.GIVES,
  run = function(p, a, now, w)
    return batch.run(p, a, now, w, ARGS, limit.complete_batch_max, complete_one)
  end,
}

define {
  name = 'ff_complete_and_claim_next',
  doc = 'Ends an execution in success, and claims the next one for the same worker.',
  flags = { 'allow-oom' },
  args = next_task.args { arg.bytes('result', limit.result_bytes_max) },
  gives = next_task.gives { OK = { 'public_state' }, DUPLICATE = { 'public_state' } },
  run = function(p, a, now, w)
    return next_task.follow(w, p, a, now, function()
      return complete(p, a, now, w, read_worker(p, a.execution_id))
    end)
  end,
}

local ITEM = next_task.item_args { arg.bytes('result', limit.result_bytes_max) }

define {
  name = 'ff_complete_executions_and_claim_next',
  doc = 'Ends several executions of one partition in success, and claims the next ones for those '
    .. 'who did.',
  flags = { 'allow-oom' },
  args = next_task.batch_args(limit.result_bytes_max),
  gives = next_task.BATCH_GIVES,
  run = function(p, a, now, w)
    return next_task.follow_all(w, p, a, now, ITEM, function(item)
      return complete(p, item, now, w, read_worker(p, item.execution_id))
    end)
  end,
}

return true
