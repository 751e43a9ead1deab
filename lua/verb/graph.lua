-- Graph: a whole flow in one call, or in several that follow each other: its members in an order in
-- which every edge goes forward, and its edges. Nothing of it runs or is listed before it is sealed.

local arg = require('kernel.arg')
local kernel = require('kernel.define')
local limit = require('kernel.limit')
local number = require('kernel.number')
local record = require('model.record')
local reply = require('kernel.reply')
local creation = require('model.creation')
local edge = require('model.edge')
local ending = require('model.ending')
local flow = require('model.flow')
local member = require('model.member')
local purge = require('model.purge')

local ARGS = member.flow_args()
ARGS[#ARGS + 1] = arg.text('digest', 64)
-- Where this part begins, so that a repetition adds nothing twice.
ARGS[#ARGS + 1] = arg.int('nodes_before', 0, limit.flow_members_max)
ARGS[#ARGS + 1] = arg.int('edges_before', 0, limit.flow_edges_max)
ARGS[#ARGS + 1] = arg.int('seal', 0, 1)
ARGS[#ARGS + 1] = arg.int('nodes', 0, limit.graph_batch_max)
ARGS[#ARGS + 1] = arg.int('node_width', 1, limit.create_width_max)
ARGS[#ARGS + 1] = arg.rest(arg.bytes('items', limit.payload_bytes_max), 0,
  limit.create_width_max * limit.graph_batch_max + 5 * limit.graph_batch_max)

-- A member stands before what it is created from.
local MEMBER = {
  arg.label('name', limit.member_name_bytes_max),
  arg.int('optional', 0, 1),
  arg.optional(arg.int('needed', 1, limit.flow_edges_max)),
}
for i = 1, #creation.ARGS do MEMBER[#MEMBER + 1] = creation.ARGS[i] end

local EDGE = {
  arg.execution('upstream'),
  arg.execution('downstream'),
  arg.choice('kind', edge.KINDS),
  arg.int('pass', 0, 1),
  arg.text('name', limit.member_name_bytes_max),
}
local EDGE_WIDTH = 5

-- The arguments of one item, in a table of their own.
local function parse(specs, items, from, width, p, now)
  local argv, own = {}, {}
  for i = 1, width do argv[i] = items[from + i - 1] end
  local a, refusal = kernel.parse(specs, argv, p, now)
  if not a then return nil, refusal end
  for name, value in pairs(a) do own[name] = value end
  return own
end

local function taken(p, uuid)
  return redis.call('EXISTS', p.execution .. uuid) == 1 or purge.outcome(p, uuid)
end

-- Reads and checks the members that are new; nil and a refusal.
local function read_nodes(p, a, f, now)
  local list, known = {}, f and flow.number(f, 'nodes') or 0
  for i = 1, a.nodes do
    local one, refusal = parse(MEMBER, a.items, (i - 1) * a.node_width + 1, a.node_width, p, now)
    if not one then return nil, refusal end
    if one.idempotency_key then
      return nil, reply.refuse('invalid_input', 'a member has no idempotency key of its own')
    end
    one.number = a.nodes_before + i
    if one.number > known then
      one.compiled, one.tags = creation.compile(one)
      if not one.compiled then return nil, one.tags end
      if taken(p, one.execution_id) then
        return nil, reply.refuse('idempotency_conflict', p.tag .. one.execution_id)
      end
      list[#list + 1] = one
    end
  end
  return list
end

-- The number of a member that an edge of this part may name: it is there, or new here.
local function numbers(p, f, list)
  local new = {}
  for i = 1, #list do new[list[i].execution_id] = list[i].number end
  return function(uuid)
    if new[uuid] then return new[uuid] end
    local x = f and record.read(p, uuid)
    return x and x.flow_id == f.id and number.stored(x.ordinal, nil) or nil
  end
end

-- Reads and checks the edges that are new; nil and a refusal.
local function read_edges(p, a, f, number_of, now)
  local list, from = {}, a.nodes * a.node_width + 1
  local known = f and number.stored(redis.call('HGET', f.key, 'edges'), 0) or 0
  local count = (#a.items - from + 1) / EDGE_WIDTH
  for i = 1, count do
    local one, refusal = parse(EDGE, a.items, from + (i - 1) * EDGE_WIDTH, EDGE_WIDTH, p, now)
    if not one then return nil, refusal end
    if a.edges_before + i > known then
      local up, down = number_of(one.upstream), number_of(one.downstream)
      if not up then return nil, reply.refuse('execution_not_in_flow', p.tag .. one.upstream) end
      if not down then
        return nil, reply.refuse('execution_not_in_flow', p.tag .. one.downstream)
      end
      if up == down then return nil, reply.refuse('self_referencing_edge') end
      if up > down then return nil, reply.refuse('cycle_detected') end
      list[#list + 1] = one
    end
  end
  return list
end

-- Does this part begin where what is there ends, or before?
local function fits(a, f, count)
  local nodes = f and flow.number(f, 'nodes') or 0
  local edges = f and number.stored(redis.call('HGET', f.key, 'edges'), 0) or 0
  return a.nodes_before <= nodes and a.edges_before <= edges
    and a.nodes_before + a.nodes <= limit.flow_members_max
    and a.edges_before + count <= limit.flow_edges_max
end

local function add_node(w, p, f, one, now)
  creation.member(w, p, one, one.compiled, one.tags, now, function(x)
    member.join(w, f, x, one.name, one.optional == 1, now)
    record.set(x, 'held', '1')
    record.set(x, 'rank', one.number)
    if one.needed then edge.need(x, one.needed) end
  end)
end

local function add_edge(w, p, f, one, now)
  local up, down = record.read(p, one.upstream), record.read(p, one.downstream)
  edge.add(w, f, up, down, edge.new(down.uuid, one.kind, one.pass == 1, one.name, '', true), now,
    ending.finish)
end

-- What must be true of the flow; nil, or the answer.
local function answered(f, a)
  if not f then return nil end
  if f.graph ~= a.digest then return reply.refuse('idempotency_conflict', a.flow_id) end
  if f.sealed then return reply.already(a.flow_id, flow.number(f, 'nodes')) end
  if f.state == 'cancelled' then return reply.refuse('flow_cancelled') end
  return nil
end

local function edges_given(a)
  local count = (#a.items - a.nodes * a.node_width) / EDGE_WIDTH
  if count < 0 or count % 1 ~= 0 or count > limit.graph_batch_max then return nil end
  return count
end

kernel.define {
  name = 'ff_submit_graph',
  doc = 'Adds members and edges to a flow that is submitted whole, and seals it with the last part.',
  flags = {},
  args = ARGS,
  gives = {
    OK = { 'flow_id', 'node_count' }, ALREADY_SATISFIED = { 'flow_id', 'node_count' },
    idempotency_conflict = { 'id' }, flow_cancelled = {}, graph_too_large = {},
    execution_not_in_flow = { 'execution_id' }, self_referencing_edge = {}, cycle_detected = {},
    invalid_policy_json = { 'text' }, invalid_capabilities = { 'text' },
    invalid_tag_key = { 'key' },
  },
  run = function(p, a, now, w)
    local count, f = edges_given(a), flow.read(p, a.flow_id)
    if not count then
      return reply.refuse('invalid_input', 'items must be members and then edges')
    end
    local before = answered(f, a)
    if before then return before end
    if not fits(a, f, count) then return reply.refuse('graph_too_large') end
    local nodes, refusal = read_nodes(p, a, f, now)
    if not nodes then return refusal end
    local edges
    edges, refusal = read_edges(p, a, f, numbers(p, f, nodes), now)
    if not edges then return refusal end
    if not f then
      f, refusal = member.found(w, p, a, now, a.digest)
      if not f then return refusal end
    end
    for i = 1, #nodes do add_node(w, p, f, nodes[i], now) end
    for i = 1, #edges do add_edge(w, p, f, edges[i], now) end
    flow.retime(w, f)
    if a.seal == 1 then member.seal(w, p, f, now) end
    return reply.ok(f.id, flow.number(f, 'nodes'))
  end,
}

return true
