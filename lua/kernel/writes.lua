-- Writes: collected while a function decides, applied by one loop at its end. A bug in a decision
-- therefore writes nothing, and no decision ever sees half of its own effects. What is collected is
-- either a changed execution, with all that follows from its record, or a command as a list.

local commit = require('model.index').commit

local writes = {}

function writes.apply(w, p, now)
  for i = 1, #w do
    local item = w[i]
    if item.uuid then commit(p, item, now) else redis.call(unpack(item)) end
  end
end

return writes
