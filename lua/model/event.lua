-- Events: every transition appends one to the partition's bounded log, and wakes those who wait.

local number = require('kernel.number')

local event = {}

-- What the log tells about an execution. One text per event, `name:uuid:attempts so far:lease
-- epoch:worker instance:why`: a value of its own for each part would cost as much again.
function event.text(x, name, why)
  return name .. ':' .. x.uuid .. ':' .. (x.attempt_count or '') .. ':'
    .. (x.lease_epoch or '') .. ':' .. (x.worker_instance_id or '') .. ':' .. (why or '')
end

-- What the log tells about a flow, in the same form.
function event.flow_text(f, name, why) return name .. ':' .. f.id .. '::::' .. (why or '') end

-- The parts of an event's text: name, uuid, index of the attempt, epoch and worker instance of its
-- lease, why; the empty text for what there is not.
function event.parse(text)
  local name, uuid, count, epoch, instance, why =
    string.match(text, '^([^:]*):([^:]*):([^:]*):([^:]*):([^:]*):(.*)$')
  local index = count == '' and '' or number.text(number.stored(count, 1) - 1)
  return name, uuid, index, epoch, instance, why
end

return event
