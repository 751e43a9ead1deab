-- Graph: a whole flow in one call, or in several that follow each other: its members in an order in
-- which every edge goes forward, and its edges. Nothing of it runs or is listed before it is
-- sealed; what comes in one call need not be held until then.

local arg = require('kernel.arg')
local define = require('kernel.define').define
local limit = require('kernel.limit')
local number = require('kernel.number')
local record = require('model.record')
local reply = require('kernel.reply')
local creation = require('model.creation')
local edge = require('model.edge')
local ending = require('model.ending')
local flow = require('model.flow')
local member = require('model.member')
local part = require('model.part')

local ARGS = member.flow_args()
ARGS[#ARGS + 1] = arg.text('digest', 64)
-- Where this part begins, so that a repetition adds nothing twice.
ARGS[#ARGS + 1] = arg.int('nodes_before', 0, limit.flow_members_max)
ARGS[#ARGS + 1] = arg.int('edges_before', 0, limit.flow_edges_max)
ARGS[#ARGS + 1] = arg.int('seal', 0, 1)
part.args(ARGS, 0)

-- Reads and checks the members that are new, in their order and by their ids; nil and a refusal.
local function read_nodes(p, a, known, now)
  local list, by_id = {}, {}
  for i = math.max(known - a.nodes_before, 0) + 1, a.nodes do
    local one, refusal = part.node(p, a, i, now)
    if not one then return nil, refusal end
    refusal = part.wrong_node(p, one, by_id)
    if refusal then return nil, refusal end
    one.number = a.nodes_before + i
    list[#list + 1], by_id[one.execution_id] = one, one
  end
  local refusal = part.taken(p, list)
  if refusal then return nil, refusal end
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
  if up > down then return reply.refuse('cycle_detected') end
  if edge.passes_nothing(one.kind, one.pass == 1) then
    return reply.refuse('invalid_input', 'pass is for edges that success satisfies')
  end
  return nil
end

-- The number of the upstream of the last edge that a member has from earlier calls; 0 if it has
-- none.
local function last_number(p, by_id, uuid)
  local x = not by_id[uuid] and record.read(p, uuid)
  local up = x and edge.last_upstream(x)
  up = up and record.read(p, up)
  return up and number.stored(up.ordinal, 0) or 0
end

-- Edges of one member come in the order of their upstreams, so that a doubled one is found without
-- looking at all of them. Nil if this one does, or a refusal.
local function misplaced(p, f, by_id, one, latest)
  local down, at = one.downstream, number_of(p, f, by_id, one.upstream)
  local before = latest[down] or last_number(p, by_id, down)
  latest[down] = at
  if at == before then
    return reply.refuse('dependency_already_exists', p.tag .. one.upstream, p.tag .. down)
  end
  return at < before and reply.refuse('invalid_input',
    'edges of a member must come in the order of their upstreams') or nil
end

-- Reads and checks the edges that are new; nil and a refusal.
local function read_edges(p, a, f, known, count, by_id, now)
  local list, latest = {}, {}
  for i = math.max(known - a.edges_before, 0) + 1, count do
    local one, refusal = part.edge(p, a, i, now)
    if not one then return nil, refusal end
    refusal = wrong_edge(p, f, by_id, one) or misplaced(p, f, by_id, one, latest)
    if refusal then return nil, refusal end
    local down = by_id[one.downstream]
    if down then down.expects = down.expects + 1 end
    list[#list + 1] = one
  end
  return list
end

local function add_node(w, p, f, one, now, hold)
  local x = creation.member(w, p, one, one.compiled, one.tags, now, function(x)
    member.join(w, f, x, one.name, one.optional == 1, now)
    if hold then record.set(x, 'held', '1') end
    if one.cancel_rest == 1 then record.set(x, 'cancel_rest', '1') end
    record.set(x, 'rank', one.number)
    if one.needed or one.expects > 0 then edge.expect(x, one.needed, one.expects) end
  end)
  if not hold and x.state ~= 'blocked' then edge.arm_deadline(x, now) end
end

local function add_edge(w, p, f, one, is_expected, now)
  local up, down = record.read(p, one.upstream), record.read(p, one.downstream)
  local new = edge.new(down.uuid, one.kind, one.pass == 1, one.name, '', true)
  if is_expected then
    -- Who came in an earlier part may have been cancelled, or run out of time, since.
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

define {
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
    dependency_already_exists = { 'upstream', 'downstream' },
    invalid_policy_json = { 'text' }, invalid_capabilities = { 'text' },
    invalid_tag_key = { 'key' },
    too_many_needs = { 'lane', 'most' }, quota_policy_not_found = {},
  },
  run = function(p, a, now, w)
    local count, refusal = part.edges_given(a)
    if not count then return refusal end
    local f = flow.read(p, a.flow_id)
    refusal = answered(f, a)
    if refusal then return refusal end
    local nodes, edges, by_id = read_part(p, a, f, count, now)
    if not nodes then return edges end
    local hold = f or a.seal == 0
    refusal = not hold and part.wants_more(nodes)
    if refusal then return refusal end
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
