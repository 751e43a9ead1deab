-- Complete: the holder finished; the execution ends in success.

local arg = require('kernel.arg')
local blob = require('model.blob')
local define = require('kernel.define').define
local limit = require('kernel.limit')
local record = require('model.record')
local reply = require('kernel.reply')
local ending = require('model.ending')
local lease = require('model.lease')
local purge = require('model.purge')

local read = record.reader { 'lease_id', 'lease_epoch', 'lease_expires_at', 'namespace',
  'attempt_count', 'worker_instance_id', 'marked' }

-- This very completion was done before, and the execution was replayed since.
local function completed_before(p, a)
  local x = record.read(p, a.execution_id)
  return lease.ended_as(x, a) == 'done'
end

define {
  name = 'ff_complete_execution',
  doc = 'Ends the running attempt and its execution in success, with a result.',
  flags = { 'allow-oom' },
  args = lease.args { arg.bytes('result', limit.result_bytes_max) },
  gives = lease.gives { OK = { 'public_state' }, DUPLICATE = { 'public_state' } },
  run = function(p, a, now, w)
    local x = read(p, a.execution_id)
    if not x then
      return purge.ended_as(p, a, '^success:') and reply.duplicate('completed')
        or reply.refuse('execution_not_found')
    end
    if x.state == 'success' and lease.matches(x, a) then return reply.duplicate('completed') end
    local refusal = lease.guard(x, a, now)
    if refusal then return completed_before(p, a) and reply.duplicate('completed') or refusal end
    blob.put(x, w, 'result', a.result)
    ending.finish(w, x, now, 'success', 'completed')
    return reply.ok('completed')
  end,
}

return true
