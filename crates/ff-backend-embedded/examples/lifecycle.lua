#!lua name=throughput
-- Create, claim, complete: the shape of the real library's hot path, for measuring the host.

local function now()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

local function create(keys, a)
  local p, id = keys[1], a[1]
  local core = p .. ':x:' .. id
  if redis.call('EXISTS', core) == 1 then
    return {1, 'DUPLICATE', id}
  end
  local n = now()
  redis.call('HSET', core, 'st', 'eligible', 'at', 'first', 'lane', a[3], 'kind', a[4], 'ns', a[2],
    'pr', a[5], 'by', a[6], 'ct', n, 'pol', a[7], 'in', a[8])
  redis.call('ZADD', p .. ':l:' .. a[3] .. ':eligible', n - tonumber(a[5]) * 1e12, id)
  redis.call('XADD', p .. ':log', 'MAXLEN', '~', 10000, '*', 'e', 'created', 'x', id)
  redis.call('SPUBLISH', p .. ':ready', a[3])
  return {1, 'OK', id, 'waiting'}
end

local function claim(keys, a)
  local p, lane = keys[1], a[1]
  local eligible = p .. ':l:' .. lane .. ':eligible'
  local found = redis.call('ZRANGE', eligible, 0, tonumber(a[6]) - 1)
  local n = now()
  local out, expires = {1, 'OK'}, n + tonumber(a[4])
  local due, active = p .. ':due', p .. ':l:' .. lane .. ':active'
  for i, id in ipairs(found) do
    local core = p .. ':x:' .. id
    local c = redis.call('HMGET', core, 'st', 'at', 'ep', 'ac', 'caps', 'kind', 'sa', 'in', 'flow')
    if c[1] == 'eligible' then
      local epoch, index = (tonumber(c[3]) or 0) + 1, tonumber(c[4]) or 0
      local lease = a[5] .. i
      local attempt = 'initial|' .. string.format('%.0f', n) .. '|' .. a[2] .. '|' .. a[3] .. '|' ..
        lease .. '|' .. epoch
      redis.call('ZREM', eligible, id)
      redis.call('HSET', core, 'st', 'running', 'at', 'run', 'ls', lease, 'ep', epoch, 'ac',
        index + 1, 'w', a[2], 'i', a[3], 'le', expires, 'sa', c[7] or n, 'a' .. index, attempt)
      redis.call('ZADD', due, expires, 'l:' .. id)
      redis.call('ZADD', active, n, id)
      redis.call('XADD', p .. ':log', 'MAXLEN', '~', 10000, '*', 'e', 'claimed', 'x', id, 'a',
        index)
      out[#out + 1] = {id, lease, epoch, expires, index, c[6], c[8]}
    end
  end
  return out
end

local function complete(keys, a)
  local p, id = keys[1], a[1]
  local core = p .. ':x:' .. id
  local c = redis.call('HMGET', core, 'st', 'le', 'ls', 'ep', 'ac', 'flow', 'lane')
  local n = now()
  if c[1] ~= 'running' then return {0, 'execution_not_active'} end
  if tonumber(c[2]) <= n then return {0, 'lease_expired'} end
  if c[3] ~= a[2] or c[4] ~= a[3] then return {0, 'stale_lease'} end
  redis.call('HSET', core, 'st', 'completed', 'at', 'end', 'et', n, 'out', a[4])
  redis.call('ZREM', p .. ':due', 'l:' .. id)
  redis.call('ZREM', p .. ':l:' .. c[7] .. ':active', id)
  redis.call('ZADD', p .. ':l:' .. c[7] .. ':terminal', n, id)
  redis.call('XADD', p .. ':log', 'MAXLEN', '~', 10000, '*', 'e', 'completed', 'x', id)
  return {1, 'OK', 'completed'}
end

redis.register_function('create', create)
redis.register_function('claim', claim)
redis.register_function('complete', complete)
