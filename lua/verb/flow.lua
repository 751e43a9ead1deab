-- Flow: makes flows, adds members to them, seals and tags them.

local arg = require('kernel.arg')
local define = require('kernel.define').define
local keys = require('kernel.keys')
local limit = require('kernel.limit')
local number = require('kernel.number')
local record = require('model.record')
local reply = require('kernel.reply')
local commit = require('model.commit')
local flow = require('model.flow')
local member = require('model.member')
local state = require('model.state')
local tags = require('model.tags')

define {
  name = 'ff_create_flow',
  doc = 'Creates an empty flow, which is open until it is sealed.',
  flags = {},
  args = member.flow_args(),
  gives = {
    OK = { 'flow_id' }, ALREADY_SATISFIED = { 'flow_id' }, idempotency_conflict = { 'flow_id' },
    invalid_tag_key = { 'key' },
  },
  run = function(p, a, now, w)
    local stored = flow.stored(p, a.flow_id)
    if stored then
      local same = stored.kind == a.flow_kind and stored.namespace == a.namespace
        and not stored.graph
      return same and reply.already(a.flow_id)
        or reply.refuse('idempotency_conflict', a.flow_id)
    end
    local f, refusal = member.found(w, p, a, now)
    return f and reply.ok(f.id) or refusal
  end,
}

-- What must be true of a flow that a member or an edge is added to; nil, or the refusal.
local function closed(f)
  if not f then return reply.refuse('flow_not_found') end
  if flow.is_over(f) then
    return reply.refuse(f.state == 'cancelled' and 'flow_cancelled' or 'flow_already_terminal')
  end
  -- A failure that ends the others would end whoever joins now.
  return f.failing and reply.refuse('flow_already_terminal') or nil
end

define {
  name = 'ff_add_execution_to_flow',
  doc = 'Makes an execution a member of an open flow.',
  flags = { 'allow-oom' },
  args = {
    arg.uuid('flow_id'),
    arg.execution('execution_id'),
    arg.optional(arg.label('name', limit.member_name_bytes_max)),
    arg.optional(arg.int('optional', 0, 1), 0),
  },
  gives = {
    OK = { 'execution_id', 'node_count' }, ALREADY_SATISFIED = { 'execution_id', 'node_count' },
    flow_not_found = {}, flow_already_terminal = {}, flow_cancelled = {}, flow_sealed = {},
    execution_not_found = {}, execution_already_in_flow = { 'flow_id' }, graph_too_large = {},
    terminal = {},
  },
  run = function(p, a, now, w)
    local f = flow.read(p, a.flow_id)
    local x = record.read(p, a.execution_id)
    if f and x and x.flow_id == f.id then
      return reply.already(p.tag .. x.uuid, flow.number(f, 'nodes'))
    end
    local refusal = closed(f)
    if refusal then return refusal end
    if f.sealed or f.graph then return reply.refuse('flow_sealed') end
    if not x then return reply.refuse('execution_not_found') end
    if x.flow_id then return reply.refuse('execution_already_in_flow', x.flow_id) end
    if state.ENDED[x.state] then return reply.refuse('terminal') end
    if flow.number(f, 'nodes') >= limit.flow_members_max then
      return reply.refuse('graph_too_large')
    end
    member.join(w, f, x, a.name or '', a.optional == 1, now)
    commit(w, x, 'joined', f.id)
    return reply.ok(p.tag .. x.uuid, flow.number(f, 'nodes'))
  end,
}

define {
  name = 'ff_seal_flow',
  doc = 'Makes a flow whole: it takes no more members, and ends when the last one has.',
  flags = { 'allow-oom' },
  args = { arg.uuid('flow_id') },
  gives = {
    OK = { 'node_count' }, ALREADY_SATISFIED = { 'node_count' }, flow_not_found = {},
    flow_cancelled = {},
  },
  run = function(p, a, now, w)
    local f = flow.read(p, a.flow_id)
    if not f or flow.is_abandoned(f) then return reply.refuse('flow_not_found') end
    if f.sealed then return reply.already(flow.number(f, 'nodes')) end
    if f.state == 'cancelled' then return reply.refuse('flow_cancelled') end
    member.seal(w, p, f, now, f.graph)
    return reply.ok(flow.number(f, 'nodes'))
  end,
}

define {
  name = 'ff_set_flow_tags',
  doc = 'Sets tags of a flow.',
  flags = { 'allow-oom' },
  args = { arg.uuid('flow_id'), arg.rest(arg.text('pairs', limit.tags_bytes_max), 0,
    2 * limit.tags_max) },
  gives = { OK = { 'count' }, flow_not_found = {}, invalid_tag_key = { 'key' } },
  run = function(p, a, now, w)
    local f = flow.read(p, a.flow_id)
    if not f then return reply.refuse('flow_not_found') end
    if #a.pairs == 0 or #a.pairs % 2 ~= 0 then
      return reply.refuse('invalid_input', 'pairs must be names and values in turn')
    end
    local list = {}
    for i = 1, #a.pairs, 2 do
      local code, detail = tags.add(list, a.pairs[i], a.pairs[i + 1])
      if code then return reply.refuse(code, detail) end
    end
    if redis.call('HLEN', keys.tags(f.key)) + #list / 2 > limit.tags_max then
      return reply.refuse('invalid_input', 'tags must be at most ' .. limit.tags_max)
    end
    w[#w + 1] = { 'HSET', keys.tags(f.key), unpack(list) }
    flow.set(w, f, { 'changed_at', number.text(now) })
    flow.retime(w, f)
    return reply.ok(#list / 2)
  end,
}

return true
