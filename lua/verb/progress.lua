-- Progress: the holder says how far it is.

local arg = require('kernel.arg')
local define = require('kernel.define').define
local limit = require('kernel.limit')
local record = require('model.record')
local reply = require('kernel.reply')
local commit = require('model.commit')
local lease = require('model.lease')

local read = record.reader { 'lease_id', 'lease_epoch', 'attempt_id', 'lease_expires_at',
  'progress_pct', 'progress_message' }

-- `-` clears a value, empty leaves it alone.
local function put(x, name, value)
  if value == '-' then
    record.drop(x, { name })
  elseif value ~= nil and value ~= '' then
    record.set(x, name, value)
  end
end

local function percent()
  local whole = arg.int('progress_pct', 0, 100)
  return arg.custom('progress_pct', function(text)
    if text == '' or text == '-' then return text end
    return whole.parse(text)
  end)
end

define {
  name = 'ff_update_progress',
  doc = 'Records progress of the running attempt: a percentage, a message, or both.',
  flags = { 'allow-oom' },
  args = lease.args { percent(), arg.text('progress_message', limit.progress_message_bytes_max) },
  gives = lease.gives { OK = {} },
  run = function(p, a, now, w)
    local x = read(p, a.execution_id)
    if not x then return reply.refuse('execution_not_found') end
    local refusal = lease.guard(x, a, now)
    if refusal then return refusal end
    put(x, 'progress_pct', a.progress_pct)
    put(x, 'progress_message', a.progress_message)
    record.set(x, 'progress_at', now)
    commit(w, x)
    return reply.ok()
  end,
}

return true
