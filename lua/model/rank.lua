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

-- Those that must go up for an edge, and how far: the downstream, and whoever behind it would not
-- stand behind any more. Nil and a code if the upstream is among them, or if there is too much to
-- look at.
local function raised(w, up, down)
  local list, ranks, looked, i = { down }, { [down.uuid] = of(up) + 1 }, 0, 1
  while list[i] do
    local edges, own = edge.outgoing(list[i], 0, limit.rank_edges_max), ranks[list[i].uuid]
    looked = looked + #edges + 1
    if looked > limit.rank_edges_max then return nil, 'graph_too_large' end
    for j = 1, #edges do
      local uuid = edges[j] and edges[j].down
      if uuid == up.uuid then return nil, 'cycle_detected' end
      local x = uuid and record.read(w.p, uuid)
      if x and (ranks[uuid] or of(x)) <= own then
        ranks[uuid], list[#list + 1] = own + 1, x
      end
    end
    i = i + 1
  end
  return list, ranks
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
  local list, ranks = raised(w, up, down)
  if not list then return ranks end
  for i = 1, #list do
    local rank_of = ranks[list[i].uuid]
    if of(list[i]) ~= rank_of then set(w, list[i], rank_of) end
  end
  return nil
end

return rank
