-- Explain: what keeps an execution from running, with its description, so that both are of one
-- moment.

local arg = require('kernel.arg')
local define = require('kernel.define').define
local limit = require('kernel.limit')
local record = require('model.record')
local reply = require('kernel.reply')
local condition = require('model.condition')
local description = require('model.description')
local edge = require('model.edge')
local gate = require('model.gate')
local index = require('model.index')
local runnable = require('model.runnable')
local state = require('model.state')
local throttle = require('model.throttle')
local waitpoint = require('model.waitpoint')

local read_upstream = record.reader { 'member_name' }

local UPSTREAM = { 'execution_id', 'name', 'public_state' }

-- The first upstreams that are not over, of those that one call may look at.
local function open_upstreams(p, x)
  local rows, list = {}, edge.incoming(x, 0, limit.edges_per_call)
  for i = 1, #list do
    local up = list[i] and read_upstream(p, list[i].up)
    if up and state.LIVE[up.state] then
      rows[#rows + 1] = reply.row(UPSTREAM, { p.tag .. up.uuid, up.member_name, state.public(up) })
    end
    if #rows == limit.explained_upstreams_max then return rows end
  end
  return rows
end

-- Where it stands in its queue, and how much is in there; nothing if it is in none.
local function position(p, x)
  local queue = index.queue_of(p, x)
  local rank = queue and redis.call('ZRANK', queue, x.uuid)
  if not rank then return '', '', '' end
  return rank, redis.call('ZCARD', queue), string.format('%.0f', index.score(x))
end

-- The names of the signals that a suspension counts.
local function signal_names(p, x)
  local one = x.state == 'suspended' and waitpoint.latest(p, x)
  local tree = one and one.condition and condition.read(one.condition)
  return tree and condition.names(tree) or {}
end

local EXPLAINED = { 'now', 'position', 'queue_length', 'score', 'reserved_for', 'reserved_until',
  'needed', 'edges', 'satisfied', 'upstreams', 'children', 'open_children', 'unsealed',
  'turn_of', 'budget_awaited', 'quota_awaited', 'quota_key', 'signal_names', 'description' }

define {
  name = 'ff_explain_execution',
  doc = 'Reads what keeps an execution from running, and its description.',
  flags = { 'no-writes' },
  args = { arg.execution('execution_id') },
  gives = { OK = EXPLAINED, execution_not_found = {} },
  run = function(p, a, now)
    local x = record.read(p, a.execution_id)
    if not x then return reply.refuse('execution_not_found') end
    local rank, length, score = position(p, x)
    local blocked = x.state == 'blocked' and not runnable.has_begun(x)
    local needed, edges, satisfied = runnable.dependencies(x)
    local ahead, awaits_quota = throttle.ahead(p, x), gate.is_at_quota(x)
    return reply.ok(unpack(reply.row(EXPLAINED, { now, rank, length, score, x.grant_instance_id,
      x.grant_expires_at, needed or 0, edges or 0, satisfied or 0,
      blocked and open_upstreams(p, x) or {}, x.children or 0, x.open_children or 0,
      x.state == 'held' and 1 or 0, ahead and p.tag .. ahead,
      x.state == 'parked' and x.budgets and x.budget_awaited,
      awaits_quota and x.quota_id, awaits_quota and x.quota_key, signal_names(p, x),
      description.row(p, x) })))
  end,
}

local function score()
  return arg.custom('score', function(text)
    if #text <= 17 and string.find(text, '^%-?%d+$') then return text end
    return nil, 'must be a whole number'
  end)
end

define {
  name = 'ff_count_ahead',
  doc = 'Counts what stands before a score in the queue of a lane and a need.',
  flags = { 'no-writes' },
  args = {
    arg.label('lane', limit.lane_bytes_max),
    arg.text('need', limit.need_bytes_max),
    score(),
  },
  gives = { OK = { 'ahead' } },
  run = function(p, a)
    local queue = p.queue .. a.lane .. ':' .. a.need
    return reply.ok(redis.call('ZCOUNT', queue, '-inf', '(' .. a.score))
  end,
}

return true
