-- Writes: collected while a function decides, applied by one loop at its end. A bug in a decision
-- therefore writes nothing, and no decision ever sees half of its own effects.

local writes = {}

-- Adds one command, given as a list.
function writes.add(w, command) w[#w + 1] = command end

function writes.apply(w)
  local call = redis.call
  for i = 1, #w do call(unpack(w[i])) end
end

return writes
