-- Edge: who waits for whom. An edge can be staged and applied in two calls or added in one; that an
-- upstream is over, its downstreams are told by the call that ended it.

local arg = require('kernel.arg')
local define = require('kernel.define').define
local limit = require('kernel.limit')
local record = require('model.record')
local reply = require('kernel.reply')
local children = require('model.children')
local edge = require('model.edge')
local ending = require('model.ending')
local flow = require('model.flow')
local rank = require('model.rank')
local runnable = require('model.runnable')
local state = require('model.state')

local ARGS = {
  arg.uuid('flow_id'),
  arg.uuid('edge_id'),
  arg.execution('upstream_execution_id'),
  arg.execution('downstream_execution_id'),
  arg.optional(arg.choice('dependency_kind', edge.KINDS), 'success_only'),
  arg.optional(arg.label('data_passing_ref', limit.member_name_bytes_max), ''),
  arg.optional(arg.int('expected_graph_revision', 0, limit.timestamp_ms_max)),
}

local function gives(own)
  own.self_referencing_edge = {}
  own.flow_not_found = {}
  own.flow_already_terminal = {}
  own.flow_cancelled = {}
  own.flow_sealed = {}
  own.stale_graph_revision = { 'graph_revision' }
  own.execution_not_in_flow = { 'execution_id' }
  own.cycle_detected = {}
  own.graph_too_large = {}
  own.dependency_already_exists = { 'edge_id' }
  return own
end

-- The flow that an edge is added to; nil and the refusal if it takes none.
local function open_flow(p, a)
  local f = flow.read(p, a.flow_id)
  if not f then return nil, reply.refuse('flow_not_found') end
  if flow.is_over(f) then
    return nil, reply.refuse(f.state == 'cancelled' and 'flow_cancelled' or 'flow_already_terminal')
  end
  if f.sealed or f.graph then return nil, reply.refuse('flow_sealed') end
  return f
end

local function is_started(x) return x.attempt_count or state.ENDED[x.state] end

-- Both members of a new edge; nil and the refusal.
local function members(p, f, a)
  local up = record.read(p, a.upstream_execution_id)
  if not up or up.flow_id ~= f.id then
    return nil, reply.refuse('execution_not_in_flow', p.tag .. a.upstream_execution_id)
  end
  local down = record.read(p, a.downstream_execution_id)
  if not down or down.flow_id ~= f.id then
    return nil, reply.refuse('execution_not_in_flow', p.tag .. a.downstream_execution_id)
  end
  return up, down
end

-- Is the edge that is there the one that is asked for?
local function same(up, one, place, a)
  return edge.id(up, one, place) == a.edge_id and edge.kind(one) == a.dependency_kind
    and (one.pass and one.name or '') == a.data_passing_ref
end

local function checked(p, a)
  if a.upstream_execution_id == a.downstream_execution_id then
    return nil, reply.refuse('self_referencing_edge')
  end
  local f, refusal = open_flow(p, a)
  if not f then return nil, refusal end
  local up, down = members(p, f, a)
  if not up then return nil, down end
  local one, place = edge.between(f, up, down)
  if one then
    if same(up, one, place, a) then
      return nil, reply.already(a.edge_id, flow.number(f, 'revision'))
    end
    return nil, reply.refuse('dependency_already_exists', edge.id(up, one, place))
  end
  if edge.is_taken(f, a.edge_id) then
    return nil, reply.refuse('dependency_already_exists', a.edge_id)
  end
  if a.expected_graph_revision and a.expected_graph_revision ~= flow.number(f, 'revision') then
    return nil, reply.refuse('stale_graph_revision', flow.number(f, 'revision'))
  end
  return f, up, down
end

-- Adds an edge to the graph; the downstream waits for it if it is applied.
local function put(w, f, up, down, a, now, applied)
  local wrong = flow.number(f, 'edges') >= limit.flow_edges_max and 'graph_too_large'
    or rank.order(w, up, down)
  if wrong then return reply.refuse(wrong) end
  local one = edge.new(down.uuid, a.dependency_kind, a.data_passing_ref ~= '', a.data_passing_ref,
    a.edge_id, applied)
  edge.add(w, f, up, down, one, now, ending.finish)
  return reply.ok(a.edge_id, flow.number(f, 'revision'))
end

define {
  name = 'ff_stage_dependency_edge',
  doc = 'Adds an edge to a flow; the downstream waits for it once it is applied.',
  flags = {},
  args = ARGS,
  gives = gives { OK = { 'edge_id', 'graph_revision' },
    ALREADY_SATISFIED = { 'edge_id', 'graph_revision' } },
  run = function(p, a, now, w)
    local f, up, down = checked(p, a)
    if not f then return up end
    return put(w, f, up, down, a, now, false)
  end,
}

define {
  name = 'ff_add_dependency',
  doc = 'Adds an edge to a flow, and the downstream waits for it at once.',
  flags = {},
  args = ARGS,
  gives = gives { OK = { 'edge_id', 'graph_revision' },
    ALREADY_SATISFIED = { 'edge_id', 'graph_revision' }, not_runnable = {} },
  run = function(p, a, now, w)
    local f, up, down = checked(p, a)
    if not f then return up end
    if is_started(down) then return reply.refuse('not_runnable') end
    return put(w, f, up, down, a, now, true)
  end,
}

define {
  name = 'ff_apply_dependency_to_child',
  doc = 'Lets the downstream of a staged edge wait for it.',
  flags = { 'allow-oom' },
  args = {
    arg.uuid('flow_id'),
    arg.uuid('edge_id'),
    arg.execution('downstream_execution_id'),
  },
  gives = {
    OK = { 'unsatisfied_count' }, ALREADY_SATISFIED = {}, flow_not_found = {},
    flow_already_terminal = {}, flow_cancelled = {}, flow_sealed = {}, execution_not_found = {},
    execution_already_in_flow = { 'flow_id' }, invalid_dependency = {}, not_runnable = {},
  },
  run = function(p, a, now, w)
    local f, refusal = open_flow(p, a)
    if not f then return refusal end
    local down = record.read(p, a.downstream_execution_id)
    if not down then return reply.refuse('execution_not_found') end
    if down.flow_id ~= f.id then
      return reply.refuse('execution_already_in_flow', down.flow_id or '')
    end
    local up, one, place = edge.find(p, f, a.edge_id)
    if not one or one.down ~= down.uuid then return reply.refuse('invalid_dependency') end
    if one.applied then return reply.already() end
    if is_started(down) then return reply.refuse('not_runnable') end
    edge.apply(w, up, down, one, place, now, ending.finish)
    local _, edges, satisfied, impossible = runnable.dependencies(down)
    return reply.ok(edges - satisfied - impossible)
  end,
}

-- Edges are told by the call that ended their upstream. Whoever knows of one that was not may ask
-- for it; what is told was never trusted.
define {
  name = 'ff_resolve_dependency',
  doc = 'Tells the downstream of an edge how its upstream ended, if nobody did.',
  flags = { 'allow-oom' },
  args = { arg.uuid('flow_id'), arg.uuid('edge_id') },
  gives = {
    OK = { 'edge_state' }, ALREADY_SATISFIED = { 'edge_state' }, flow_not_found = {},
    invalid_dependency = {}, upstream_not_terminal = {}, flow_cancelled = {},
  },
  run = function(p, a, now, w)
    local f = flow.read(p, a.flow_id)
    if not f then return reply.refuse('flow_not_found') end
    local up, one, place = edge.find(p, f, a.edge_id)
    if not one then return reply.refuse('invalid_dependency') end
    if not state.ENDED[up.state] then return reply.refuse('upstream_not_terminal') end
    local stands = edge.state(up, one, place)
    if stands ~= 'pending' then return reply.already(stands) end
    if flow.frees_nobody(f) then return reply.refuse('flow_cancelled') end
    edge.tell_on(w, up, now, ending.finish)
    return reply.ok(edge.state(up, one, place))
  end,
}

define {
  name = 'ff_evaluate_flow_eligibility',
  doc = 'Says whether its upstreams allow an execution to run.',
  flags = { 'no-writes' },
  args = { arg.execution('execution_id') },
  gives = { OK = { 'eligibility' } },
  run = function(p, a, now)
    local x = record.read(p, a.execution_id)
    if not x then return reply.ok('not_found') end
    if state.ENDED[x.state] then return reply.ok('terminal') end
    if state.phase(x) ~= 'runnable' then
      return reply.ok(state.ownership(x) == 'unowned' and 'not_runnable' or 'owned')
    end
    local blocked = runnable.state(x, now)
    return reply.ok((blocked == 'blocked' or blocked == 'held') and 'blocked_by_dependencies'
      or 'eligible')
  end,
}

define {
  name = 'ff_promote_blocked_to_eligible',
  doc = 'Lets an execution run that is blocked although it waits for nobody.',
  flags = { 'allow-oom' },
  args = { arg.execution('execution_id') },
  gives = {
    OK = {}, execution_not_found = {}, not_runnable = {}, not_blocked_by_deps = {}, terminal = {},
    deps_not_satisfied = { 'unsatisfied_count' }, flow_cancelled = {},
  },
  run = function(p, a, now, w)
    local x = record.read(p, a.execution_id)
    if not x then return reply.refuse('execution_not_found') end
    if state.ENDED[x.state] then return reply.refuse('terminal') end
    if state.phase(x) ~= 'runnable' then return reply.refuse('not_runnable') end
    if x.state ~= 'blocked' and x.state ~= 'held' then
      return reply.refuse('not_blocked_by_deps')
    end
    if flow.stopped(p, x) then return reply.refuse('flow_cancelled') end
    if runnable.state(x, now) == x.state then
      local needed, _, satisfied = runnable.dependencies(x)
      return reply.refuse('deps_not_satisfied', x.open_children
        or needed and needed - satisfied or 0)
    end
    if x.attempt_count then
      children.reconsider(w, x, now)
    else
      edge.reconsider(w, x, now, ending.finish)
    end
    return reply.ok()
  end,
}

return true
