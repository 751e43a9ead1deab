-- Writes: collected while a function decides, applied by one loop at its end. A bug in a decision
-- therefore writes nothing, and no decision ever sees half of its own effects. What is collected is
-- either a changed execution, with all that follows from its record, or a command as a list.

local commit = require('model.index').commit

local writes = {}

-- Writes what was collected so far. A function may do that several times; the pushes wait.
function writes.apply(w, p, now)
  for i = 1, #w do
    local item = w[i]
    if item.uuid then commit(p, item, now, w) else redis.call(unpack(item)) end
    w[i] = nil
  end
end

-- Wakes those who wait, after everything is written. The store may refuse a push, and what was done
-- stays done: whoever missed it looks by himself sooner or later.
function writes.push(pushes)
  for i = 1, #pushes, 2 do redis.pcall('SPUBLISH', pushes[i], pushes[i + 1]) end
end

return writes
