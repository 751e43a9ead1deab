-- Ranks: every edge of a flow goes from a member of a lower rank to one of a higher rank, so that
-- there can be no cycle, and most new edges are checked without looking at the graph.

local limit = require('kernel.limit')
local number = require('kernel.number')
local commit = require('model.commit')
local edge = require('model.edge')
local record = require('model.record')

local rank = {}

local function of(x) return number.stored(x.rank, 0) end

local function set(w, x, value)
  record.set(x, 'rank', value)
  commit(w, x)
end

-- Everything below a member, itself included: uuid -> record; nil and a code if the upstream is
-- among it, or if there is too much to look at.
local function below(w, down, up)
  local found, list, looked = { [down.uuid] = down }, { down }, 0
  local i = 1
  while list[i] do
    local edges = edge.outgoing(list[i], 0, limit.rank_edges_max)
    looked = looked + #edges + 1
    if looked > limit.rank_edges_max then return nil, 'graph_too_large' end
    for j = 1, #edges do
      local uuid = edges[j] and edges[j].down
      if uuid == up.uuid then return nil, 'cycle_detected' end
      if uuid and not found[uuid] then
        found[uuid] = record.read(w.p, uuid)
        list[#list + 1] = found[uuid]
      end
    end
    i = i + 1
  end
  return list
end

-- Makes room for an edge: gives nil if there can be one, with ranks that fit, or a code.
function rank.order(w, up, down)
  local low, high = of(up), of(down)
  if low < high then return nil end
  if not down.edges_out then
    set(w, down, low + 1)
    return nil
  end
  if not up.dependencies then
    set(w, up, high - 1)
    return nil
  end
  local list, code = below(w, down, up)
  if not list then return code end
  for i = 1, #list do set(w, list[i], of(list[i]) + low - high + 1) end
  return nil
end

return rank
