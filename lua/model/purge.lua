-- Purge: an execution and everything that belongs to it disappears.

local keys = require('kernel.keys')

local purge = {}

function purge.execution(w, p, uuid, outcome)
  local key = keys.execution(p, uuid)
  w[#w + 1] = { 'DEL', keys.blob(key, 'in'), keys.blob(key, 'out'), keys.blob(key, 'po'),
    keys.tags(p, uuid), keys.attempts(p, uuid), key }
  w[#w + 1] = { 'ZREM', keys.ended(p, outcome), uuid }
  w[#w + 1] = { 'ZREM', keys.all(p), uuid }
end

return purge
