-- Children: a running member adds members to its own flow, which count as its children, with edges
-- from each other and from members that are there. One that is in no flow becomes the first member
-- of one of its own.

local arg = require('kernel.arg')
local define = require('kernel.define').define
local limit = require('kernel.limit')
local number = require('kernel.number')
local record = require('model.record')
local reply = require('kernel.reply')
local children = require('model.children')
local creation = require('model.creation')
local edge = require('model.edge')
local ending = require('model.ending')
local flow = require('model.flow')
local lease = require('model.lease')
local member = require('model.member')
local part = require('model.part')
local rank = require('model.rank')
local state = require('model.state')
local writes = require('kernel.writes')

-- The flow that takes the children: nil if it must be made first; false and the refusal.
local function open_flow(p, x, a)
  local f = flow.read(p, x.flow_id or a.flow_id)
  if not x.flow_id then
    if not f then return nil end
    return false, reply.refuse('idempotency_conflict', a.flow_id)
  end
  if not f then return false, reply.refuse('flow_not_found') end
  if f.state == 'cancelled' or flow.stops(f, x) then
    return false, reply.refuse('flow_cancelled')
  end
  return f
end

-- Is this member there already, as this very child?
local function is_known(p, x, one)
  local child = record.read(p, one.execution_id)
  return child and child.parent == x.uuid and (child.content or '') == one.content_digest
end

-- Reads and checks the children: those that are new in their order, and all by their ids; what is
-- there already is false. Nil and a refusal.
local function read_nodes(p, a, x, now)
  local new, by_id = {}, {}
  for i = 1, a.nodes do
    local one, refusal = part.node(p, a, i, now)
    if not one then return nil, refusal end
    if by_id[one.execution_id] == nil and is_known(p, x, one) then
      by_id[one.execution_id] = false
    else
      -- A child belongs to its parent's namespace, whatever the caller takes that for.
      one.namespace, one.ups, one.number = x.namespace, {}, i
      refusal = part.wrong_node(p, one, by_id)
      if refusal then return nil, refusal end
      new[#new + 1], by_id[one.execution_id] = one, one
    end
  end
  local refusal = part.taken(p, new)
  if refusal then return nil, refusal end
  return new, by_id
end

-- May a child wait for it? It is a member of the flow, which begins with the parent.
local function is_member(p, x, f, uuid)
  if uuid == x.uuid then return true end
  local up = f and record.read(p, uuid)
  return up and up.flow_id == f.id
end

-- What is wrong with an edge to a child that is new; nil if nothing is.
local function wrong_edge(p, x, f, by_id, one)
  local up, down = by_id[one.upstream], by_id[one.downstream]
  if one.upstream == one.downstream then return reply.refuse('self_referencing_edge') end
  if up then return up.number > down.number and reply.refuse('cycle_detected') or nil end
  if is_member(p, x, f, one.upstream) then return nil end
  return reply.refuse('execution_not_in_flow', p.tag .. one.upstream)
end

-- Reads and checks the edges to children that are new; nil and a refusal.
local function read_edges(p, a, x, f, count, by_id, now)
  local list = {}
  for i = 1, count do
    local one, refusal = part.edge(p, a, i, now)
    if not one then return nil, refusal end
    local down = by_id[one.downstream]
    if down == nil then
      return nil, reply.refuse('execution_not_in_flow', p.tag .. one.downstream)
    end
    refusal = down and wrong_edge(p, x, f, by_id, one)
    if refusal then return nil, refusal end
    if down then
      down.ups[#down.ups + 1], down.expects = one.upstream, down.expects + 1
      list[#list + 1] = one
    end
  end
  return list
end

-- Are they more than a parent, or its flow, may have?
local function are_too_many(x, f, nodes, edges)
  if number.stored(x.children, 0) + nodes > limit.children_max then return true end
  return f and (flow.number(f, 'nodes') + nodes > limit.flow_members_max
    or flow.number(f, 'edges') + edges > limit.flow_edges_max)
end

-- Makes a flow of an execution that was in none: nobody else joins it, and it is kept as long as
-- the execution would be.
local function found(w, p, x, a, now)
  local f = member.found(w, p, { flow_id = a.flow_id, flow_kind = x.kind,
    namespace = x.namespace, retention_ms = number.stored(x.retention_ms, nil),
    tags_json = '' }, now)
  flow.set(w, f, { 'sealed', '1' })
  member.join(w, f, x, '', false, now)
  return f
end

local function add_node(w, p, f, x, one, now)
  local child = creation.member(w, p, one, one.compiled, one.tags, now, function(child)
    member.join(w, f, child, one.name, one.optional == 1, now)
    record.set(child, 'parent', x.uuid)
    record.set(child, 'rank', one.rank)
    if one.content_digest ~= '' then record.set(child, 'content', one.content_digest) end
    -- What makes up for a failure may need help with it.
    if x.kept then record.set(child, 'kept', '1') end
    if one.expects > 0 then edge.expect(child, one.needed, one.expects) end
  end)
  if child.state ~= 'blocked' then edge.arm_deadline(child, now) end
end

local function add_edge(w, p, f, one, now)
  local up, down = record.read(p, one.upstream), record.read(p, one.downstream)
  local new = edge.new(down.uuid, one.kind, one.pass == 1, one.name, '', true)
  edge.link(w, f, up, down, new, now)
  return state.ENDED[up.state] and up.uuid
end

-- Who was over before tells those that are new. They must be written for that.
local function tell(w, p, over, now)
  if #over == 0 then return end
  writes.flush(w)
  for i = 1, #over do edge.tell_on(w, record.read(p, over[i]), now, ending.finish) end
end

-- Adds what was checked; gives the ids of the new children.
local function add(w, p, f, x, new, edges, now)
  local uuids, ids = {}, {}
  for i = 1, #new do
    uuids[i], ids[i] = new[i].execution_id, p.tag .. new[i].execution_id
  end
  -- They are counted before the first of them can be over.
  children.adopt(w, x, uuids)
  for i = 1, #new do add_node(w, p, f, x, new[i], now) end
  local over, seen = {}, {}
  for i = 1, #edges do
    local uuid = add_edge(w, p, f, edges[i], now)
    if uuid and not seen[uuid] then over[#over + 1], seen[uuid] = uuid, true end
  end
  tell(w, p, over, now)
  return ids
end

-- What is to be added: the new children and the edges to them; nil and a refusal.
local function read_part(w, p, a, x, f, now)
  local count, refusal = part.edges_given(a)
  if not count then return nil, refusal end
  local new, by_id = read_nodes(p, a, x, now)
  if not new then return nil, by_id end
  local edges
  edges, refusal = read_edges(p, a, x, f, count, by_id, now)
  refusal = refusal or part.wants_more(new)
  if refusal then return nil, refusal end
  if are_too_many(x, f, #new, #edges) then return nil, reply.refuse('graph_too_large') end
  local wrong = rank.place(w, x, new)
  if wrong then return nil, reply.refuse(wrong) end
  return new, edges
end

define {
  name = 'ff_add_children',
  doc = 'Adds members to the flow of a running execution, as its children.',
  flags = {},
  args = lease.args(part.args({ arg.uuid('flow_id') }, 1)),
  gives = lease.gives {
    OK = { 'flow_id', 'added' }, ALREADY_SATISFIED = { 'flow_id', 'added' },
    idempotency_conflict = { 'id' }, flow_not_found = {}, flow_cancelled = {},
    graph_too_large = {}, execution_not_in_flow = { 'execution_id' },
    self_referencing_edge = {}, cycle_detected = {}, invalid_policy_json = { 'text' },
    invalid_capabilities = { 'text' }, invalid_tag_key = { 'key' },
    too_many_needs = { 'lane', 'most' }, quota_policy_not_found = {},
  },
  run = function(p, a, now, w)
    local x = record.read(p, a.execution_id)
    if not x then return reply.refuse('execution_not_found') end
    local refusal = lease.guard(x, a, now)
    if refusal then return refusal end
    local f
    f, refusal = open_flow(p, x, a)
    if refusal then return refusal end
    local new, edges = read_part(w, p, a, x, f, now)
    if not new then return edges end
    if #new == 0 then return reply.already(f.id, {}) end
    f = f or found(w, p, x, a, now)
    return reply.ok(f.id, add(w, p, f, x, new, edges, now))
  end,
}

return true
