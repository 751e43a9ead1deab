-- The deployment: facts that hold for all partitions, kept in the first one.

local arg = require('kernel.arg')
local define = require('kernel.define').define
local limit = require('kernel.limit')
local number = require('kernel.number')
local reply = require('kernel.reply')
local writes = require('kernel.writes')
local index = require('model.index')
local record = require('model.record')

local FORMAT = number.constant(limit.store_format)
local OLDEST = number.constant(limit.store_format_oldest)

define {
  name = 'ff_open_deployment',
  doc = 'Fixes counts and format of a new deployment, or checks those of an existing one.',
  flags = { 'allow-oom' },
  args = {
    arg.int('num_flow_partitions', 1, 65535),
    arg.int('num_budget_partitions', 1, 65535),
    arg.int('num_quota_partitions', 1, 65535),
    arg.int('format', 1, 65535),
  },
  gives = {
    -- A store of an older format is to be upgraded before anything else is done with it.
    OK = { 'created', 'format' },
    store_format_mismatch = { 'found', 'needed' },
    deployment_mismatch = { 'num_flow_partitions', 'num_budget_partitions',
      'num_quota_partitions' },
  },
  run = function(p, a, _, w)
    local key = p.deployment
    local flow, budget, quota, known =
      unpack(redis.call('HMGET', key, 'flow', 'budget', 'quota', 'format'))
    -- A store without the number is older than the number.
    local format = flow and (known or '0') or FORMAT
    if format ~= FORMAT and format ~= OLDEST or a.format ~= limit.store_format then
      return reply.refuse('store_format_mismatch', format, number.text(a.format))
    end
    if not flow then
      w[#w + 1] = { 'HSET', key, 'flow', a.num_flow_partitions, 'budget', a.num_budget_partitions,
        'quota', a.num_quota_partitions, 'format', FORMAT }
      return reply.ok(1, FORMAT)
    end
    if tonumber(flow) == a.num_flow_partitions and tonumber(budget) == a.num_budget_partitions
      and tonumber(quota) == a.num_quota_partitions then
      return reply.ok(0, format)
    end
    return reply.refuse('deployment_mismatch', flow, budget or '', quota or '')
  end,
}

define {
  name = 'ff_upgrade_lane',
  doc = 'Moves what waits in the one queue that a lane had to the queues by need.',
  flags = { 'allow-oom' },
  args = { arg.label('lane', limit.lane_bytes_max) },
  gives = { OK = { 'left' } },
  run = function(p, a, _, w)
    local old = p.queue .. a.lane
    local page = redis.call('ZRANGE', old, 0, limit.upgrade_batch - 1)
    for i = 1, #page do
      local x = record.read(p, page[i])
      if x then index.list_again(w, x) end
      writes.extend(w, 'ZREM', old, page[i])
    end
    return reply.ok(redis.call('ZCARD', old) - #page)
  end,
}

define {
  name = 'ff_finish_upgrade',
  doc = 'Says that all partitions have the format of this version.',
  flags = { 'allow-oom' },
  args = {},
  gives = { OK = {} },
  run = function(p, _, _, w)
    w[#w + 1] = { 'HSET', p.deployment, 'format', FORMAT }
    return reply.ok()
  end,
}

define {
  name = 'ff_register_lane',
  doc = 'Adds a lane to the list of lanes in use.',
  flags = { 'allow-oom' },
  args = { arg.label('lane', limit.lane_bytes_max) },
  gives = { OK = {}, ALREADY_SATISFIED = {} },
  run = function(p, a, _, w)
    if redis.call('SISMEMBER', p.lanes, a.lane) == 1 then return reply.already() end
    w[#w + 1] = { 'SADD', p.lanes, a.lane }
    return reply.ok()
  end,
}

define {
  name = 'ff_list_lanes',
  doc = 'Lists the lanes in use, sorted by name.',
  flags = { 'no-writes' },
  args = {},
  gives = { OK = { 'lanes' } },
  run = function(p)
    local lanes = redis.call('SMEMBERS', p.lanes)
    table.sort(lanes)
    return reply.ok(lanes)
  end,
}

return true
