-- Graph: a whole flow in one call, or in several that follow each other: its members in an order in
-- which every edge goes forward, and its edges. Nothing of it runs or is listed before it is
-- sealed; what comes in one call need not be held until then.

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
  local argv, own = {}, {}
  for i = 1, width do argv[i] = items[from + i - 1] end
  local a, refusal = kernel.parse(specs, argv, p, now)
  if not a then return nil, refusal end
  for name, value in pairs(a) do own[name] = value end
  return own
end

local function is_taken(p, uuid)
  return redis.call('EXISTS', p.execution .. uuid) == 1
end

-- What is wrong with a member that is new; nil if nothing is.
local function wrong_node(p, one, by_id)
  if one.idempotency_key then
    return reply.refuse('invalid_input', 'a member has no idempotency key of its own')
  end
  if by_id[one.execution_id] or is_taken(p, one.execution_id) then
    return reply.refuse('idempotency_conflict', p.tag .. one.execution_id)
  end
  one.compiled, one.tags = creation.compile(one)
  return not one.compiled and one.tags or nil
end

-- Reads and checks the members that are new, in their order and by their ids; nil and a refusal.
local function read_nodes(p, a, known, now)
  local list, by_id = {}, {}
  for i = math.max(known - a.nodes_before, 0) + 1, a.nodes do
    local one, refusal = parse(MEMBER, a.items, (i - 1) * a.node_width + 1, a.node_width, p, now)
    if not one then return nil, refusal end
    refusal = wrong_node(p, one, by_id)
    if refusal then return nil, refusal end
    one.number, one.expects = a.nodes_before + i, 0
    list[#list + 1], by_id[one.execution_id] = one, one
  end
  return list, by_id
end

-- The number of a member that an edge of this part may name: it is there, or new here.
local function number_of(p, f, by_id, uuid)
  if by_id[uuid] then return by_id[uuid].number end
  local x = f and record.read(p, uuid)
  return x and x.flow_id == f.id and number.stored(x.ordinal, nil) or nil
end

-- What is wrong with an edge that is new; nil if nothing is.
local function wrong_edge(p, f, by_id, one)
  local up = number_of(p, f, by_id, one.upstream)
  if not up then return reply.refuse('execution_not_in_flow', p.tag .. one.upstream) end
  local down = number_of(p, f, by_id, one.downstream)
  if not down then return reply.refuse('execution_not_in_flow', p.tag .. one.downstream) end
  if up == down then return reply.refuse('self_referencing_edge') end
  return up > down and reply.refuse('cycle_detected') or nil
end

-- Reads and checks the edges that are new; nil and a refusal.
local function read_edges(p, a, f, known, count, by_id, now)
  local list, from = {}, a.nodes * a.node_width + 1
  for i = math.max(known - a.edges_before, 0) + 1, count do
    local one, refusal = parse(EDGE, a.items, from + (i - 1) * EDGE_WIDTH, EDGE_WIDTH, p, now)
    if not one then return nil, refusal end
    refusal = wrong_edge(p, f, by_id, one)
    if refusal then return nil, refusal end
    local down = by_id[one.downstream]
    if down then down.expects = down.expects + 1 end
    list[#list + 1] = one
  end
  return list
end

-- Does a member need more edges than it has?
local function wants_more(nodes)
  for i = 1, #nodes do
    if nodes[i].needed and nodes[i].needed > nodes[i].expects then return true end
  end
  return false
end

local function add_node(w, p, f, one, now, hold)
  local x = creation.member(w, p, one, one.compiled, one.tags, now, function(x)
    member.join(w, f, x, one.name, one.optional == 1, now)
    if hold then record.set(x, 'held', '1') end
    record.set(x, 'rank', one.number)
    if one.needed or one.expects > 0 then edge.expect(x, one.needed, one.expects) end
  end)
  if not hold and x.state ~= 'blocked' then edge.arm_deadline(x, now) end
end

local function add_edge(w, p, f, one, is_expected, now)
  local up, down = record.read(p, one.upstream), record.read(p, one.downstream)
  local new = edge.new(down.uuid, one.kind, one.pass == 1, one.name, '', true)
  if is_expected then
    edge.link(w, f, up, down, new, now, ending.finish)
  else
    edge.add(w, f, up, down, new, now, ending.finish)
  end
end

-- What must be true of the flow; nil, or the answer.
local function answered(f, a)
  if not f then return nil end
  if f.graph ~= a.digest then return reply.refuse('idempotency_conflict', a.flow_id) end
  if f.sealed then return reply.already(a.flow_id, flow.number(f, 'nodes')) end
  -- What was given up is going away: in a moment it can be submitted anew.
  if flow.is_removed(f) then return reply.refuse('flow_already_terminal') end
  if f.state == 'cancelled' then return reply.refuse('flow_cancelled') end
  return nil
end

local function edges_given(a)
  local count = (#a.items - a.nodes * a.node_width) / EDGE_WIDTH
  if count < 0 or count % 1 ~= 0 or count > limit.graph_batch_max then return nil end
  return count
end

-- Why this part cannot follow what is there; nil if it can.
local function misfit(a, nodes, edges, count)
  if a.nodes_before + a.nodes > limit.flow_members_max
    or a.edges_before + count > limit.flow_edges_max then
    return reply.refuse('graph_too_large')
  end
  if a.nodes_before > nodes or a.edges_before > edges then
    return reply.refuse('stale_graph_revision', nodes + edges)
  end
  return nil
end

-- The members and edges of this part that are new, and the members by their ids; nil and a refusal.
local function read_part(p, a, f, count, now)
  local known_nodes = f and flow.number(f, 'nodes') or 0
  local known_edges = f and flow.number(f, 'edges') or 0
  local refusal = misfit(a, known_nodes, known_edges, count)
  if refusal then return nil, refusal end
  local nodes, by_id = read_nodes(p, a, known_nodes, now)
  if not nodes then return nil, by_id end
  local edges
  edges, refusal = read_edges(p, a, f, known_edges, count, by_id, now)
  if not edges then return nil, refusal end
  return nodes, edges, by_id
end

kernel.define {
  name = 'ff_submit_graph',
  doc = 'Adds members and edges to a flow that is submitted whole; the last part seals it.',
  flags = {},
  args = ARGS,
  gives = {
    OK = { 'flow_id', 'node_count' }, ALREADY_SATISFIED = { 'flow_id', 'node_count' },
    idempotency_conflict = { 'id' }, flow_cancelled = {}, flow_already_terminal = {},
    graph_too_large = {},
    stale_graph_revision = { 'graph_revision' }, execution_not_in_flow = { 'execution_id' },
    self_referencing_edge = {}, cycle_detected = {},
    invalid_policy_json = { 'text' }, invalid_capabilities = { 'text' },
    invalid_tag_key = { 'key' },
  },
  run = function(p, a, now, w)
    local count, f = edges_given(a), flow.read(p, a.flow_id)
    if not count then
      return reply.refuse('invalid_input', 'items must be members and then edges')
    end
    local refusal = answered(f, a)
    if refusal then return refusal end
    local nodes, edges, by_id = read_part(p, a, f, count, now)
    if not nodes then return edges end
    local hold = f or a.seal == 0
    if not hold and wants_more(nodes) then
      return reply.refuse('invalid_input', 'needed must be at most the edges of a member')
    end
    if not f then
      f, refusal = member.found(w, p, a, now, a.digest)
      if not f then return refusal end
    end
    for i = 1, #nodes do add_node(w, p, f, nodes[i], now, hold) end
    for i = 1, #edges do
      add_edge(w, p, f, edges[i], by_id[edges[i].downstream] ~= nil, now)
    end
    flow.retime(w, f)
    if a.seal == 1 then member.seal(w, p, f, now, hold) end
    return reply.ok(f.id, flow.number(f, 'nodes'))
  end,
}

return true
