-- Parts of graphs: members, and edges between them, as arguments of one call: so many members, each
-- of so many arguments, and then the edges.

local arg = require('kernel.arg')
local kernel = require('kernel.define')
local limit = require('kernel.limit')
local reply = require('kernel.reply')
local creation = require('model.creation')
local edge = require('model.edge')

local part = {}

-- Adds the arguments of a part to a function's own; it has at least so many members.
function part.args(own, low)
  own[#own + 1] = arg.int('nodes', low, limit.graph_batch_max)
  own[#own + 1] = arg.int('node_width', 1, limit.create_width_max)
  own[#own + 1] = arg.rest(arg.bytes('items', limit.payload_bytes_max), 0,
    limit.create_width_max * limit.graph_batch_max + 5 * limit.graph_batch_max)
  return own
end

-- A member stands before what it is created from.
local MEMBER = {
  arg.label('name', limit.member_name_bytes_max),
  arg.int('optional', 0, 1),
  arg.optional(arg.int('needed', 1, limit.flow_edges_max)),
}
-- One more stands behind as many of those; what submissions were given later comes after it.
local EARLY = 16
for i = 1, #creation.ARGS do
  MEMBER[#MEMBER + 1] = creation.ARGS[i]
  if i == EARLY then MEMBER[#MEMBER + 1] = arg.optional(arg.int('cancel_rest', 0, 1), 0) end
end
kernel.prepare(MEMBER)

local EDGE = kernel.prepare {
  arg.execution('upstream'),
  arg.execution('downstream'),
  arg.choice('kind', edge.KINDS),
  arg.int('pass', 0, 1),
  arg.optional(arg.label('name', limit.member_name_bytes_max), ''),
}
local EDGE_WIDTH = 5

-- The arguments of one item, in a table of their own.
local function parse(specs, items, from, width, p, now)
  local argv = {}
  for i = 1, width do argv[i] = items[from + i - 1] end
  return kernel.parse_apart(specs, argv, p, now)
end

-- A member by its place; nil and a refusal.
function part.node(p, a, i, now)
  local one, refusal = parse(MEMBER, a.items, (i - 1) * a.node_width + 1, a.node_width, p, now)
  if one then one.expects = 0 end
  return one, refusal
end

-- An edge by its place; nil and a refusal.
function part.edge(p, a, i, now)
  local from = a.nodes * a.node_width + (i - 1) * EDGE_WIDTH + 1
  return parse(EDGE, a.items, from, EDGE_WIDTH, p, now)
end

-- How many edges there are; nil and a refusal if what is given is no part.
function part.edges_given(a)
  local count = (#a.items - a.nodes * a.node_width) / EDGE_WIDTH
  if count < 0 or count % 1 ~= 0 or count > limit.graph_batch_max then
    return nil, reply.refuse('invalid_input', 'items must be members and then edges')
  end
  return count
end

-- What is wrong with a member that is new; nil if nothing is.
function part.wrong_node(p, one, by_id)
  if one.idempotency_key or one.throttle then
    return reply.refuse('invalid_input', 'a member has no key of its own')
  end
  if by_id[one.execution_id] then
    return reply.refuse('idempotency_conflict', p.tag .. one.execution_id)
  end
  one.compiled, one.tags = creation.compile(p, one)
  return not one.compiled and one.tags or nil
end

-- The refusal of members one of which exists already, in this flow or elsewhere; nil if none does.
function part.taken(p, list)
  local keys = {}
  for i = 1, #list do keys[i] = p.execution .. list[i].execution_id end
  if #keys == 0 or redis.call('EXISTS', unpack(keys)) == 0 then return nil end
  local i = 1
  while redis.call('EXISTS', keys[i]) == 0 do i = i + 1 end
  return reply.refuse('idempotency_conflict', p.tag .. list[i].execution_id)
end

-- The refusal of members that need more edges than they have; nil if there is none.
function part.wants_more(nodes)
  for i = 1, #nodes do
    if nodes[i].needed and nodes[i].needed > nodes[i].expects then
      return reply.refuse('invalid_input', 'needed must be at most the edges of a member')
    end
  end
  return nil
end

return part
