-- Ranks: whoever may wait for a member has a higher rank than it: those behind its edges, and its
-- parent. So there can be no cycle, and most new edges are checked without looking at the graph.

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

-- Who may wait for a member: those behind its edges, and its parent.
local function waiters(x)
  local edges, list = edge.outgoing(x, 0, limit.rank_edges_max), {}
  for i = 1, #edges do if edges[i] then list[#list + 1] = edges[i].down end end
  list[#list + 1] = x.parent
  return list
end

-- Those that must go up, and how far: a member that goes to a rank, and whoever behind it would not
-- stand behind any more. Nil and a code if one of `ups`, which it is to stand behind, is among
-- them, or if there is too much to look at.
local function raised(w, first, to, ups)
  if ups[first.uuid] then return nil, 'cycle_detected' end
  local list, ranks, looked, i = { first }, { [first.uuid] = to }, 0, 1
  while list[i] do
    local behind, own = waiters(list[i]), ranks[list[i].uuid]
    looked = looked + #behind + 1
    if looked > limit.rank_edges_max then return nil, 'graph_too_large' end
    for j = 1, #behind do
      local uuid = behind[j]
      if ups[uuid] then return nil, 'cycle_detected' end
      local x = record.read(w.p, uuid)
      if x and (ranks[uuid] or of(x)) <= own then
        ranks[uuid], list[#list + 1] = own + 1, x
      end
    end
    i = i + 1
  end
  return list, ranks
end

-- Lets a member, and whoever must, go up; nil, or a code.
local function raise(w, first, to, ups)
  local list, ranks = raised(w, first, to, ups)
  if not list then return ranks end
  for i = 1, #list do
    local rank_of = ranks[list[i].uuid]
    if of(list[i]) ~= rank_of then set(w, list[i], rank_of) end
  end
  return nil
end

-- Makes room for an edge: gives nil if there can be one, with ranks that fit, or a code.
function rank.order(w, up, down)
  local low, high = of(up), of(down)
  if low < high then return nil end
  if not down.edges_out and not down.parent then
    set(w, down, low + 1)
    return nil
  end
  if not up.dependencies and not up.children then
    set(w, up, high - 1)
    return nil
  end
  return raise(w, down, low + 1, { [up.uuid] = true })
end

-- Gives children that are new ranks: behind those that they wait for, and before their parent,
-- which goes up if it must. They come so that everybody is behind those it waits for; `ups` of one
-- are the uuids of these. Gives nil, or a code.
function rank.place(w, parent, new)
  local high, ranks, ups = of(parent), {}, {}
  local top = high - 1
  for i = 1, #new do
    local own = high - #new + i - 1
    for _, uuid in ipairs(new[i].ups) do
      if not ranks[uuid] then ups[uuid] = true end
      own = math.max(own, (ranks[uuid] or of(record.read(w.p, uuid))) + 1)
    end
    new[i].rank, ranks[new[i].execution_id] = own, own
    top = math.max(top, own)
  end
  return top >= high and raise(w, parent, top + 1, ups) or nil
end

return rank
