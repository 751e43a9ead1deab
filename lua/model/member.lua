-- Members: how a flow is made and sealed, and how executions become part of it.

local arg = require('kernel.arg')
local keys = require('kernel.keys')
local limit = require('kernel.limit')
local number = require('kernel.number')
local reply = require('kernel.reply')
local writes = require('kernel.writes')
local event = require('model.event')
local flow = require('model.flow')
local log = require('model.log')
local record = require('model.record')
local tags = require('model.tags')
local walk = require('model.walk')

local member = {}

-- What a flow is made from.
function member.flow_args()
  return {
    arg.uuid('flow_id'),
    arg.label('flow_kind', limit.kind_bytes_max),
    arg.label('namespace', limit.namespace_bytes_max),
    arg.optional(arg.choice('on_failure', { 'continue', 'fail_fast' })),
    arg.optional(arg.moment('deadline_at')),
    arg.optional(arg.int('retention_ms', 0, limit.retention_ms_max)),
    arg.text('tags_json', limit.tags_bytes_max),
  }
end

-- Makes a flow; nil and a refusal if its tags break a rule. `digest` is that of a whole graph.
function member.found(w, p, a, now, digest)
  local pairs_of_tags, code, detail = tags.read(a.tags_json)
  if not pairs_of_tags then return nil, reply.refuse(code, detail) end
  local f = flow.new(p, a.flow_id)
  local at = number.text(now)
  flow.set(w, f, { 'created_at', at, 'changed_at', at, 'kind', a.flow_kind, 'namespace',
    a.namespace })
  if a.on_failure == 'fail_fast' then flow.set(w, f, { 'on_failure', a.on_failure }) end
  if a.deadline_at then flow.set(w, f, { 'deadline_at', number.text(a.deadline_at) }) end
  if a.retention_ms then flow.set(w, f, { 'retention_ms', number.text(a.retention_ms) }) end
  if digest then flow.set(w, f, { 'graph', digest }) end
  if #pairs_of_tags > 0 then w[#w + 1] = { 'HSET', keys.tags(f.key), unpack(pairs_of_tags) } end
  w[#w + 1] = { 'ZADD', p.flows, 0, f.id }
  flow.retime(w, f)
  w[#w + 1] = log.entry(p, event.flow_text(f, 'flow_created', a.namespace))
  return f
end

-- Gives an execution its place in the flow.
function member.join(w, f, x, name, optional, now)
  flow.grow(w, f, 1, 0, now)
  local ordinal = flow.number(f, 'nodes')
  x.counted = false
  record.set(x, 'flow_id', f.id)
  record.set(x, 'ordinal', ordinal)
  if name ~= '' then record.set(x, 'member_name', name) end
  -- An idempotency key goes with its execution, and that with the flow.
  if number.stored(x.remembered_until, 0) > flow.number(f, 'kept_until') then
    flow.set(w, f, { 'kept_until', x.remembered_until })
  end
  if optional then record.set(x, 'optional', '1') end
  writes.extend(w, 'ZADD', keys.members(f.key), ordinal, x.uuid)
end

-- Nobody joins any more. Members that were held until now may run.
function member.seal(w, p, f, now, are_held)
  flow.set(w, f, { 'sealed', '1', 'changed_at', number.text(now) })
  flow.retime(w, f)
  w[#w + 1] = log.entry(p, event.flow_text(f, 'flow_sealed'))
  -- A member may have failed although it was held: its time was over, or it was cancelled.
  if are_held then walk.begin(w, p, f, f.failing and 'fail' or 'release', now) end
end

return member
