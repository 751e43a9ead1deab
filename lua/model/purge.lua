-- Purge: an execution and everything that belongs to it disappears.

local keys = require('kernel.keys')

local purge = {}

function purge.execution(w, p, uuid, outcome)
  local key = p.execution .. uuid
  w[#w + 1] = { 'DEL', keys.blob(key, 'payload'), keys.blob(key, 'result'),
    keys.blob(key, 'policy'), keys.blob(key, 'detail'), keys.tags(key), keys.attempts(key), key }
  w[#w + 1] = { 'ZREM', p.ended[outcome], uuid }
  w[#w + 1] = { 'ZREM', p.all, uuid }
end

return purge
