-- Change: what an operator may alter on an execution without moving its state.

local arg = require('kernel.arg')
local define = require('kernel.define').define
local keys = require('kernel.keys')
local limit = require('kernel.limit')
local record = require('model.record')
local reply = require('kernel.reply')
local commit = require('model.commit')
local lease = require('model.lease')
local request = require('model.request')
local state = require('model.state')
local tags = require('model.tags')

define {
  name = 'ff_change_priority',
  doc = 'Gives an execution that is not over another priority; it counts from the next claim on.',
  flags = { 'allow-oom' },
  args = {
    arg.execution('execution_id'),
    arg.int('priority', 0, limit.priority_max),
    request.arg(),
  },
  gives = {
    OK = { 'old_priority', 'new_priority' },
    DUPLICATE = { 'old_priority', 'new_priority' },
    execution_not_found = {},
    execution_not_active = { 'terminal_outcome', 'lease_epoch', 'lifecycle_phase', 'attempt_id' },
  },
  run = function(p, a, now, w)
    local x = record.read(p, a.execution_id)
    if not x then return reply.refuse('execution_not_found') end
    if request.seen(x, a) then return reply.duplicate(a.priority, a.priority) end
    if state.ENDED[x.state] then return lease.not_active(x) end
    local old = x.priority or '0'
    record.set(x, 'priority', a.priority)
    request.note(x, a)
    record.set(x, 'mutation_at', now)
    commit(w, x, 'priority_changed', old)
    return reply.ok(old, a.priority)
  end,
}

local function read_pairs(list)
  local out = {}
  for i = 1, #list, 2 do
    local code, detail = tags.add(out, list[i], list[i + 1])
    if code then return nil, reply.refuse(code, detail) end
  end
  return out
end

-- How many tags there would be, without writing.
local function count_after(key, pairs_of_tags)
  local count = redis.call('HLEN', key)
  local seen = {}
  for i = 1, #pairs_of_tags, 2 do
    local name = pairs_of_tags[i]
    if not seen[name] and not redis.call('HGET', key, name) then count = count + 1 end
    seen[name] = true
  end
  return count
end

define {
  name = 'ff_set_execution_tags',
  doc = 'Sets tags of an execution, given as names and values in turn.',
  flags = { 'allow-oom' },
  args = {
    arg.execution('execution_id'),
    request.arg(),
    arg.rest(arg.text('tags', limit.tag_value_bytes_max), 2, 2 * limit.tags_max),
  },
  gives = { OK = { 'count' }, ALREADY_SATISFIED = {}, execution_not_found = {},
    invalid_tag_key = { 'key' } },
  run = function(p, a, now, w)
    if #a.tags % 2 ~= 0 then return reply.refuse('invalid_input', 'tags must come in pairs') end
    local x = record.read(p, a.execution_id)
    if not x then return reply.refuse('execution_not_found') end
    if request.seen(x, a) then return reply.already() end
    local list, refusal = read_pairs(a.tags)
    if not list then return refusal end
    local key = keys.tags(x.key)
    if count_after(key, list) > limit.tags_max then
      return reply.refuse('invalid_input', 'tags must be at most ' .. limit.tags_max)
    end
    record.set(x, 'tagged', '1')
    record.set(x, 'mutation_at', now)
    request.note(x, a)
    commit(w, x)
    w[#w + 1] = { 'HSET', key, unpack(list) }
    return reply.ok(#list / 2)
  end,
}

return true
