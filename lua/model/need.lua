-- Needs: what an execution asks of the worker that takes it, as one text: `namespace:kind`, and
-- behind another colon the capabilities it requires. What can be claimed is queued by lane and
-- need, so that a worker looks only at what it may take.

local capability = require('model.capability')

local need = {}

function need.of_parts(namespace, kind, capabilities)
  if not capabilities then return namespace .. ':' .. kind end
  return namespace .. ':' .. kind .. ':' .. capabilities
end

-- The need of an execution. A damaged record may lack a part of it.
function need.of(x) return need.of_parts(x.namespace or '', x.kind or '', x.capabilities) end

-- May a worker take what has this need? Empty sets of kinds and namespaces stand for any.
function need.suits(text, a, has)
  local namespace, kind, required = string.match(text, '^([^:]*):([^:]*):?(.*)$')
  return namespace and (not a.namespaces or a.namespaces[namespace])
    and (not a.kinds or a.kinds[kind]) and not capability.missing(required, has)
end

-- The needs of what waits in a lane, in one order.
function need.list(p, lane)
  local needs = redis.call('SMEMBERS', p.needs .. lane)
  table.sort(needs)
  return needs
end

-- The capabilities that a need requires and a worker lacks; nil if it lacks none.
function need.missing(text, has)
  return capability.missing(string.match(text, '^[^:]*:[^:]*:(.*)$'), has)
end

return need
