-- Workers: the registry of connected worker processes, kept in the first partition, and the leases
-- that a leaving worker hands back, in every partition.

local arg = require('kernel.arg')
local define = require('kernel.define').define
local limit = require('kernel.limit')
local number = require('kernel.number')
local record = require('model.record')
local reply = require('kernel.reply')
local writes = require('kernel.writes')
local capability = require('model.capability')
local claim = require('model.claim')
local due = require('model.due')
local event = require('model.event')
local lease = require('model.lease')
local need = require('model.need')
local pause = require('model.pause')

local worker_id, worker_instance_id = claim.worker_args()

local function ttl() return arg.int('ttl_ms', 1, limit.lease_ttl_ms_max) end

-- session:worker_id:registered_at:expires_at:capabilities, then a lane on each further line. No
-- label contains a colon, and neither capabilities nor lanes contain a line's end.
local function pack(entry)
  return table.concat({ entry.session, entry.worker_id, number.text(entry.registered_at),
    number.text(entry.expires_at), entry.capabilities .. '\n' .. entry.lanes }, ':')
end

local function unpack_entry(text)
  local session, id, registered_at, expires_at, capabilities, lanes =
    string.match(text, '^([^:]*):([^:]*):(%d+):(%d+):([^\n]*)\n(.*)$')
  return { session = session, worker_id = id, registered_at = tonumber(registered_at),
    expires_at = tonumber(expires_at), capabilities = capabilities, lanes = lanes }
end

-- The entry of an instance while its registration lasts.
local function live(p, instance_id, now)
  local text = redis.call('HGET', p.workers, instance_id)
  local entry = text and unpack_entry(text)
  return entry and entry.expires_at > now and entry or nil
end

-- The beginning of a registration's name in the index of times.
local TIMER = 'w:'

-- A worker that was not heard of in time.
due.on[TIMER] = function(w, p, member)
  w[#w + 1] = { 'HDEL', p.workers, string.sub(member, #TIMER + 1) }
  w[#w + 1] = { 'ZREM', p.due, member }
  return 'forgotten'
end

local function put(w, p, instance_id, entry, now)
  w[#w + 1] = { 'HSET', p.workers, instance_id, pack(entry) }
  w[#w + 1] = { 'ZADD', p.due, entry.expires_at, TIMER .. instance_id }
  if event.is_soon(entry.expires_at, now) then
    writes.push(w, p.due_channel, entry.expires_at)
  end
end

define {
  name = 'ff_register_worker',
  doc = 'Makes a worker process known, or renews that.',
  flags = { 'allow-oom' },
  args = {
    worker_id,
    worker_instance_id,
    arg.uuid('session'),
    arg.text('capabilities', limit.capabilities_bytes_max),
    ttl(),
    arg.rest(arg.label('lanes', limit.lane_bytes_max), 0, limit.lanes_max),
  },
  gives = {
    OK = { 'expires_at' },
    worker_instance_in_use = {},
    invalid_capabilities = { 'text' },
  },
  run = function(p, a, now, w)
    local _, wrong = capability.parse(a.capabilities)
    if wrong then return reply.refuse('invalid_capabilities', 'worker:' .. wrong) end
    local before = live(p, a.worker_instance_id, now)
    if before and before.session ~= a.session then return reply.refuse('worker_instance_in_use') end
    local entry = { session = a.session, worker_id = a.worker_id, capabilities = a.capabilities,
      registered_at = before and before.registered_at or now, expires_at = now + a.ttl_ms,
      lanes = table.concat(a.lanes, '\n') }
    put(w, p, a.worker_instance_id, entry, now)
    return reply.ok(entry.expires_at)
  end,
}

define {
  name = 'ff_heartbeat_worker',
  doc = 'Extends the registration of a worker process.',
  flags = { 'allow-oom' },
  args = { worker_instance_id, arg.uuid('session'), ttl() },
  gives = { OK = { 'expires_at' }, worker_not_found = {}, worker_instance_in_use = {} },
  run = function(p, a, now, w)
    local entry = live(p, a.worker_instance_id, now)
    if not entry then return reply.refuse('worker_not_found') end
    if entry.session ~= a.session then return reply.refuse('worker_instance_in_use') end
    entry.expires_at = math.max(entry.expires_at, now + a.ttl_ms)
    put(w, p, a.worker_instance_id, entry, now)
    return reply.ok(entry.expires_at)
  end,
}

define {
  name = 'ff_unregister_worker',
  doc = 'Takes a worker process off the list.',
  flags = { 'allow-oom' },
  args = { worker_instance_id, arg.uuid('session') },
  gives = { OK = {}, ALREADY_SATISFIED = {}, worker_instance_in_use = {} },
  run = function(p, a, now, w)
    local entry = live(p, a.worker_instance_id, now)
    if not entry then return reply.already() end
    if entry.session ~= a.session then return reply.refuse('worker_instance_in_use') end
    w[#w + 1] = { 'HDEL', p.workers, a.worker_instance_id }
    w[#w + 1] = { 'ZREM', p.due, TIMER .. a.worker_instance_id }
    return reply.ok()
  end,
}

define {
  name = 'ff_list_workers',
  doc = 'Lists the connected worker processes, sorted by instance.',
  flags = { 'no-writes' },
  args = {},
  gives = { OK = { 'workers' } },
  run = function(p, _, now)
    local flat, rows = redis.call('HGETALL', p.workers), {}
    for i = 1, #flat, 2 do
      local entry = unpack_entry(flat[i + 1])
      if entry.expires_at > now then
        rows[#rows + 1] = { flat[i], entry.worker_id, entry.registered_at, entry.expires_at,
          entry.capabilities, entry.lanes }
      end
    end
    table.sort(rows, function(one, other) return one[1] < other[1] end)
    return reply.ok(rows)
  end,
}

local read_holder = record.reader { 'worker_instance_id', 'lease_expires_at' }

-- Does this worker hold a live lease of the execution?
local function holds(p, uuid, instance_id, now)
  local x = read_holder(p, uuid)
  return x and x.state == 'running' and x.worker_instance_id == instance_id
    and number.stored(x.lease_expires_at, 0) > now
end

define {
  name = 'ff_release_worker_leases',
  doc = 'Hands back the leases of a leaving worker; their attempts go on with any other worker.',
  flags = { 'allow-oom' },
  args = {
    worker_instance_id,
    arg.optional(arg.int('skip', 0, limit.release_skip_max), 0),
  },
  gives = { OK = { 'released', 'next_skip' } },
  run = function(p, a, now, w)
    local released, most = 0, limit.release_scan_max
    local page = redis.call('ZRANGE', p.leases, a.skip, a.skip + most - 1)
    for i = 1, #page do
      if holds(p, page[i], a.worker_instance_id, now) then
        local x = record.read(p, page[i])
        lease.withdraw(x)
        pause.until_time(w, x, now, now, 'release', 'released', 'worker_left')
        released = released + 1
      end
    end
    -- What was handed back is gone from where it was, or else is looked at again in vain.
    return reply.ok(released, #page == most and a.skip + most - released or '')
  end,
}

-- How much waits in a lane, and since when its heads do.
local function depth_of(p, lane)
  local needs, depth, since = need.list(p, lane), 0, nil
  for i = 1, #needs do
    local queue = p.queue .. lane .. ':' .. needs[i]
    local head = redis.call('ZRANGE', queue, 0, 0)[1]
    local created_at = head and tonumber(redis.call('ZSCORE', p.all, head) or '')
    if created_at and (not since or created_at < since) then since = created_at end
    depth = depth + redis.call('ZCARD', queue)
  end
  return depth, since
end

-- One queue: its lane, its need, the score of its head and its length. One that is empty is
-- forgotten until something joins it.
local function need_row(w, p, lane, text)
  local queue = p.queue .. lane .. ':' .. text
  local head = redis.call('ZRANGE', queue, 0, 0, 'WITHSCORES')
  if not head[1] then
    writes.extend(w, 'SREM', p.needs .. lane, text)
    return nil
  end
  return { lane, text, string.format('%.0f', tonumber(head[2])), redis.call('ZCARD', queue) }
end

define {
  name = 'ff_list_needs',
  doc = 'Lists the queues of lanes that are not empty, each with its head and its length.',
  flags = { 'allow-oom' },
  args = { arg.rest(arg.label('lanes', limit.lane_bytes_max), 1, limit.lanes_max) },
  -- Of so many lanes, from the first on, all is told.
  gives = { OK = { 'needs', 'lanes_listed' } },
  run = function(p, a, _, w)
    local rows, looked, listed = {}, 0, 0
    while listed < #a.lanes and looked < limit.needs_listed_max do
      listed = listed + 1
      local needs = need.list(p, a.lanes[listed])
      looked = looked + #needs
      for i = 1, #needs do rows[#rows + 1] = need_row(w, p, a.lanes[listed], needs[i]) end
    end
    return reply.ok(rows, listed)
  end,
}

define {
  name = 'ff_lane_depths',
  doc = 'Tells how much waits in lanes of a partition, and since when.',
  flags = { 'no-writes' },
  args = { arg.rest(arg.label('lanes', limit.lane_bytes_max), 1, limit.lanes_max) },
  gives = { OK = { 'depths' } },
  run = function(p, a)
    local rows = {}
    for i = 1, #a.lanes do
      local depth, since = depth_of(p, a.lanes[i])
      rows[i] = { a.lanes[i], depth, since or '' }
    end
    return reply.ok(rows)
  end,
}

return true
