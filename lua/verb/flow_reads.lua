-- Flow reads: flows, their members and their edges, one by one, page by page, or the whole graph.

local arg = require('kernel.arg')
local define = require('kernel.define').define
local keys = require('kernel.keys')
local limit = require('kernel.limit')
local number = require('kernel.number')
local record = require('model.record')
local reply = require('kernel.reply')
local edge = require('model.edge')
local flow = require('model.flow')
local page = require('model.page')
local state = require('model.state')

local FLOW = { 'kind', 'namespace', 'public_flow_state', 'graph_revision', 'node_count',
  'edge_count', 'created_at', 'last_mutation_at', 'started_at', 'ended_at', 'sealed',
  'on_failure', 'deadline_at', 'cancelled_at', 'cancel_reason', 'cancellation_policy',
  'being_cancelled', 'stuck', 'counts', 'tags' }

local PUBLIC = { 'waiting', 'delayed', 'waiting_children', 'active', 'suspended', 'completed',
  'failed', 'cancelled', 'expired', 'skipped' }
local WORDS = { 'held', 'blocked', 'waiting', 'delayed', 'parked', 'running', 'suspended',
  'lapsed', 'revoked', 'success', 'failed', 'cancelled', 'expired', 'skipped' }

-- How many members are in which public state: names and numbers in turn.
local function counts(stored)
  local sums, list = {}, {}
  for i = 1, #WORDS do
    local public = state.public { state = WORDS[i] }
    sums[public] = (sums[public] or 0) + number.stored(stored['n:' .. WORDS[i]], 0)
  end
  for i = 1, #PUBLIC do
    list[2 * i - 1], list[2 * i] = PUBLIC[i], sums[PUBLIC[i]]
  end
  return list
end

define {
  name = 'ff_describe_flow',
  doc = 'Reads everything about a flow but its members and edges.',
  flags = { 'no-writes' },
  args = { arg.uuid('flow_id') },
  gives = { OK = FLOW, flow_not_found = {} },
  run = function(p, a)
    local f, key = flow.stored(p, a.flow_id), p.flow .. a.flow_id
    if not f or not f.created_at then return reply.refuse('flow_not_found') end
    return reply.ok(unpack(reply.row(FLOW, { f.kind, f.namespace, flow.state(f), f.revision or 0,
      f.nodes or 0, f.edges or 0, f.created_at, f.changed_at, f.started_at, f.ended_at,
      f.sealed and 1 or 0, f.on_failure or 'continue', f.deadline_at, f.cancelled_at,
      f.cancel_reason, f.cancel_policy,
      string.find(f.walk or '', '^cancel') and 1 or 0, f.stuck or 0,
      counts(f), redis.call('HGETALL', keys.tags(key)) })))
  end,
}

local EDGE = { 'edge_id', 'upstream_execution_id', 'downstream_execution_id', 'dependency_kind',
  'edge_state', 'applied', 'passes_data', 'input_name' }

local function row(p, up, one, place)
  return reply.row(EDGE, { edge.id(up, one, place), p.tag .. up.uuid, p.tag .. one.down,
    edge.kind(one), edge.state(up, one, place), one.applied and 1 or 0, one.pass and 1 or 0,
    one.name })
end

define {
  name = 'ff_describe_edge',
  doc = 'Reads one edge of a flow.',
  flags = { 'no-writes' },
  args = { arg.uuid('flow_id'), arg.uuid('edge_id') },
  gives = { OK = { 'edge' }, EMPTY = {}, flow_not_found = {} },
  run = function(p, a)
    local f = flow.read(p, a.flow_id)
    if not f then return reply.refuse('flow_not_found') end
    local up, one, place = edge.find(p, f, a.edge_id)
    if not one then return reply.empty() end
    return reply.ok(row(p, up, one, place))
  end,
}

local function outgoing(p, x, from, most)
  local rows, list = {}, edge.outgoing(x, from, most)
  for i = 1, #list do if list[i] then rows[#rows + 1] = row(p, x, list[i], from + i - 1) end end
  return rows, #list
end

local function incoming(p, x, from, most)
  local rows, list = {}, edge.incoming(x, from, most)
  for i = 1, #list do
    local up = list[i] and record.read(p, list[i].up)
    local one = up and edge.read(up, list[i].place)
    if one then rows[#rows + 1] = row(p, up, one, list[i].place) end
  end
  return rows, #list
end

define {
  name = 'ff_list_edges',
  doc = 'Lists the edges that begin or end at a member, from a place on.',
  flags = { 'no-writes' },
  args = {
    arg.execution('execution_id'),
    arg.choice('direction', { 'outgoing', 'incoming' }),
    arg.int('from', 0, limit.flow_edges_max),
    arg.int('limit', 1, limit.list_limit_max),
  },
  gives = { OK = { 'flow_id', 'edges', 'next_from' }, execution_not_found = {} },
  run = function(p, a)
    local x = record.read(p, a.execution_id)
    if not x then return reply.refuse('execution_not_found') end
    local read = a.direction == 'outgoing' and outgoing or incoming
    local rows, count = read(p, x, a.from, a.limit)
    return reply.ok(x.flow_id or '', rows, count == a.limit and a.from + count or '')
  end,
}

local MEMBER = { 'execution_id', 'ordinal', 'name', 'kind', 'public_state', 'optional',
  'attempt_count', 'started_at', 'ended_at', 'cancelled_by', 'lease_expires_at', 'edge_count' }

-- What a member is told from, and where its edges stand.
local read_member = record.reader { 'ordinal', 'member_name', 'kind', 'optional', 'attempt_count',
  'started_at', 'attempt_started_at', 'ended_at', 'cancelled_by', 'lease_expires_at', 'edges_out',
  'edges_resolved' }

-- A member that can be told; nil for one that is gone, or whose state a newer version wrote.
local function known_member(p, uuid)
  local x = read_member(p, uuid)
  return x and state.known(x.state) and x or nil
end

local function member_row(p, x)
  return reply.row(MEMBER, { p.tag .. x.uuid, x.ordinal or 0, x.member_name, x.kind,
    state.public(x), x.optional and 1 or 0, x.attempt_count or 0,
    x.started_at or x.attempt_started_at, x.ended_at, x.cancelled_by, x.lease_expires_at,
    x.edges_out or 0 })
end

-- Who asks may name any state; in this one there is no member yet.
local ASKED = { 'rate_limited' }
for i = 1, #PUBLIC do ASKED[#ASKED + 1] = PUBLIC[i] end

define {
  name = 'ff_list_members',
  doc = 'Lists the members of a flow in the order in which they came, from an ordinal on.',
  flags = { 'no-writes' },
  args = {
    arg.uuid('flow_id'),
    arg.optional(arg.choice('state', ASKED)),
    arg.int('from', 0, limit.flow_members_max),
    arg.int('limit', 1, limit.list_limit_max),
  },
  gives = { OK = { 'members', 'next_from' }, flow_not_found = {} },
  run = function(p, a)
    local f = flow.read(p, a.flow_id)
    if not f then return reply.refuse('flow_not_found') end
    local rows, list = {}, flow.members(f, a.from, a.limit)
    for i = 1, #list, 2 do
      local x = known_member(p, list[i])
      if x and (not a.state or state.public(x) == a.state) then
        rows[#rows + 1] = member_row(p, x)
      end
    end
    return reply.ok(rows, #list == 2 * a.limit and tonumber(list[#list]) + 1 or '')
  end,
}

-- Where a graph is read on: at which ordinal, and how much of that member was told: itself, and so
-- many of its edges.
local CURSOR = arg.custom('cursor', function(text)
  local ordinal, told = string.match(text, '^(%d+):(%d+)$')
  ordinal, told = number.parse(ordinal or ''), number.parse(told or '')
  if not ordinal or not told then return nil, 'must be what the page before gave' end
  return { ordinal = ordinal, told = told }
end)

local function cursor_text(ordinal, told)
  return number.text(ordinal) .. ':' .. number.text(told)
end

-- Adds what is not told yet of a member, as far as `left` goes. Gives how much of it is told now,
-- and what is left.
local function tell_member(p, x, told, left, members, edges)
  if told == 0 then
    members[#members + 1] = member_row(p, x)
    told, left = 1, left - 1
  end
  if left == 0 or not x.edges_out then return told, left end
  local rows, count = outgoing(p, x, told - 1, left)
  for i = 1, #rows do edges[#edges + 1] = rows[i] end
  return told + count, left - count
end

define {
  name = 'ff_read_graph',
  doc = 'Reads members in the order in which they came, each before the edges that begin there.',
  flags = { 'no-writes' },
  args = { arg.uuid('flow_id'), arg.optional(CURSOR), arg.int('limit', 1, limit.list_limit_max) },
  gives = { OK = { 'members', 'edges', 'next_cursor' }, flow_not_found = {} },
  run = function(p, a)
    local f, from = flow.read(p, a.flow_id), a.cursor or { ordinal = 0, told = 0 }
    if not f then return reply.refuse('flow_not_found') end
    local members, edges, left = {}, {}, a.limit
    local list = flow.members(f, from.ordinal, a.limit)
    for i = 1, #list, 2 do
      local x, ordinal = known_member(p, list[i]), tonumber(list[i + 1])
      local told = ordinal == from.ordinal and from.told or 0
      if x then told, left = tell_member(p, x, told, left, members, edges) end
      if left == 0 then return reply.ok(members, edges, cursor_text(ordinal, told)) end
    end
    return reply.ok(members, edges, #list == 2 * a.limit
      and cursor_text(tonumber(list[#list]) + 1, 0) or '')
  end,
}

local SUMMARY = { 'flow_id', 'kind', 'namespace', 'public_flow_state', 'node_count', 'created_at',
  'ended_at', 'stuck', 'live', 'bad' }

define {
  name = 'ff_list_flows',
  doc = 'Lists flows of a partition by their ids, from behind one on: all, or those that owe ends.',
  flags = { 'no-writes' },
  args = {
    arg.optional(arg.uuid('after')),
    arg.int('limit', 1, limit.list_limit_max),
    arg.optional(arg.int('owing', 0, 1), 0),
  },
  gives = { OK = { 'flows', 'next_after' } },
  run = function(p, a)
    local index = a.owing == 1 and p.owing or p.flows
    local from = page.position(index, false, a.after and { score = 0, member = a.after } or {})
    local ids, rows = redis.call('ZRANGE', index, from, from + a.limit - 1), {}
    for i = 1, #ids do
      local f = flow.stored(p, ids[i])
      if f then
        rows[#rows + 1] = reply.row(SUMMARY, { ids[i], f.kind, f.namespace, flow.state(f),
          f.nodes or 0, f.created_at, f.ended_at, f.stuck or 0, f.live or 0, f.bad or 0 })
      end
    end
    return reply.ok(rows, #ids == a.limit and ids[#ids] or '')
  end,
}

return true
