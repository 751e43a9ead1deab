-- Kinds: how many executions of which kind are in which state. Nothing counts them as they move,
-- which every transition would pay for: each index is looked at, all of it while that is little,
-- and otherwise at places spread evenly over it, which stand for the rest.

local arg = require('kernel.arg')
local define = require('kernel.define').define
local limit = require('kernel.limit')
local need = require('model.need')
local record = require('model.record')
local reply = require('kernel.reply')
local state = require('model.state')

local read = record.reader { 'kind', 'grant_expires_at', 'deadline_at' }

-- The index that counts an execution, although several may list it.
local function place(x)
  if state.ENDED[x.state] then return 'ended' end
  if x.state == 'running' then return 'leases' end
  if x.state == 'suspended' then return 'suspended' end
  if state.CLAIMABLE[x.state] and not x.grant_expires_at then return 'queue' end
  if x.state == 'delayed' or x.grant_expires_at or x.deadline_at then return 'due' end
  return 'all'
end

-- The indexes, the smallest first: what they leave of the budget is for the others. Last comes the
-- list of all, for what no other index has.
local function indexes(p, lanes)
  local list = {}
  local function add(name, key)
    local size = redis.call('ZCARD', key)
    if size > 0 then list[#list + 1] = { place = name, key = key, size = size } end
  end
  add('leases', p.leases)
  add('suspended', p.suspended)
  add('due', p.due)
  for i = 1, #state.OUTCOMES do add('ended', p.ended[state.OUTCOMES[i]]) end
  for i = 1, #lanes do
    local needs = need.list(p, lanes[i])
    for j = 1, #needs do add('queue', p.queue .. lanes[i] .. ':' .. needs[j]) end
  end
  table.sort(list, function(one, other) return one.size < other.size end)
  add('all', p.all)
  return list
end

-- So many entries of an index, spread evenly over it.
local function spread(index, most)
  if index.size <= most then return redis.call('ZRANGE', index.key, 0, -1) end
  local found = {}
  for i = 1, most do
    local rank = math.floor((i - 0.5) * index.size / most)
    found[i] = redis.call('ZRANGE', index.key, rank, rank)[1]
  end
  return found
end

-- Counts what an index has; gives for how many executions that stands.
local function count(p, index, most, tally)
  local found = spread(index, most)
  local each, sum = index.size / #found, 0
  for i = 1, #found do
    local x = not string.find(found[i], '^%l:') and read(p, found[i])
    if x and x.state ~= 'held' and state.known(x.state) and place(x) == index.place then
      local kind, public = x.kind or '', state.public(x)
      tally[kind] = tally[kind] or {}
      tally[kind][public] = (tally[kind][public] or 0) + each
      sum = sum + each
    end
  end
  return sum
end

local function rows(tally)
  local list = {}
  for kind, states in pairs(tally) do
    for public, number in pairs(states) do
      list[#list + 1] = { kind, public, math.floor(number + 0.5) }
    end
  end
  table.sort(list, function(one, other)
    if one[1] ~= other[1] then return one[1] < other[1] end
    return one[2] < other[2]
  end)
  return list
end

define {
  name = 'ff_count_kinds',
  doc = 'Counts the executions of a partition by kind and state, by looking at some of them.',
  flags = { 'no-writes' },
  args = {
    arg.int('look_at', 1, limit.count_look_max),
    arg.rest(arg.label('lanes', limit.lane_bytes_max), 0, limit.lanes_max),
  },
  gives = { OK = { 'counts', 'exact' } },
  run = function(p, a)
    local list, tally, left, sum, exact = indexes(p, a.lanes), {}, a.look_at, 0, true
    for i = 1, #list do
      local index = list[i]
      -- What every other index has together is all there is, unless some wait for others.
      if index.place == 'all' and sum >= index.size then break end
      local most = math.max(1, math.floor(left / (#list - i + 1)))
      exact = exact and index.size <= most
      sum = sum + count(p, index, most, tally)
      left = left - math.min(index.size, most)
    end
    return reply.ok(rows(tally), exact and '1' or '0')
  end,
}

return true
