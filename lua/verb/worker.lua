-- Workers: the registry of connected worker processes, each in the partition of its instance id,
-- and the leases that a leaving worker hands back, in every partition.

local arg = require('kernel.arg')
local define = require('kernel.define').define
local limit = require('kernel.limit')
local number = require('kernel.number')
local record = require('model.record')
local reply = require('kernel.reply')
local capability = require('model.capability')
local claim = require('model.claim')
local lane = require('model.lane')
local lease = require('model.lease')
local need = require('model.need')
local pause = require('model.pause')
local worker = require('model.worker')

local worker_id, worker_instance_id = claim.worker_args()

local function ttl() return arg.int('ttl_ms', 1, limit.lease_ttl_ms_max) end

-- How many tasks a worker runs, or may run, if it says so.
local function tasks(name) return arg.optional(arg.int(name, 0, limit.worker_tasks_max)) end

-- What tells a process from all others on its machine, and that one among machines: printable
-- characters.
local function process(name)
  return arg.custom(name, function(text)
    if text == '' or #text <= limit.process_bytes_max and string.find(text, '^[!-~]+$') then
      return text
    end
    return nil, 'must be at most ' .. limit.process_bytes_max .. ' printable characters'
  end)
end

-- Names joined by colons, or nothing; parsed into lines.
local function names(name, bytes_max, count_max)
  local labels = arg.labels(name, bytes_max, count_max)
  return arg.custom(name, function(text)
    if text == '' then return text end
    local _, wrong = labels.parse(text)
    if wrong then return nil, wrong end
    return (string.gsub(text, ':', '\n'))
  end)
end

-- Has another process than this one the instance id, and did not the caller see it go?
local function is_taken(before, a)
  return before and before.session ~= a.session
    and (a.replaces == '' or a.replaces ~= before.process)
end

local function new_entry(a, before, now)
  local same = before and before.session == a.session
  return { session = a.session, worker_id = a.worker_id, capabilities = a.capabilities,
    registered_at = same and before.registered_at or now, expires_at = now + a.ttl_ms,
    lanes = table.concat(a.lanes, '\n'),
    running = a.running and number.text(a.running) or '',
    capacity = a.capacity and number.text(a.capacity) or '', heard_at = now, process = a.process,
    kinds = a.kinds, namespaces = a.namespaces }
end

define {
  name = 'ff_register_worker',
  doc = 'Makes a worker process known, or renews that; it may replace one that its caller saw go.',
  flags = { 'allow-oom' },
  args = {
    worker_id,
    worker_instance_id,
    arg.uuid('session'),
    arg.text('capabilities', limit.capabilities_bytes_max),
    ttl(),
    names('kinds', limit.kind_bytes_max, limit.kinds_max),
    tasks('running'),
    tasks('capacity'),
    process('process'),
    process('replaces'),
    names('namespaces', limit.namespace_bytes_max, limit.namespaces_max),
    arg.rest(arg.label('lanes', limit.lane_bytes_max), 0, limit.lanes_max),
  },
  gives = {
    OK = { 'expires_at', 'replaced' },
    worker_instance_in_use = { 'process' },
    invalid_capabilities = { 'text' },
  },
  run = function(p, a, now, w)
    local _, wrong = capability.parse(a.capabilities)
    if wrong then return reply.refuse('invalid_capabilities', 'worker:' .. wrong) end
    local before = worker.live(p, a.worker_instance_id, now)
    if is_taken(before, a) then
      return reply.refuse('worker_instance_in_use', before.process)
    end
    local entry = new_entry(a, before, now)
    worker.put(w, p, a.worker_instance_id, entry)
    return reply.ok(entry.expires_at, before and before.session ~= a.session and 1 or 0)
  end,
}

define {
  name = 'ff_heartbeat_worker',
  doc = 'Extends the registration of a worker process, which may say how many tasks it runs.',
  flags = { 'allow-oom' },
  args = { worker_instance_id, arg.uuid('session'), ttl(), tasks('running') },
  gives = { OK = { 'expires_at', 'at_capacity' }, worker_not_found = {},
    worker_instance_in_use = { 'process' } },
  run = function(p, a, now, w)
    local entry = worker.live(p, a.worker_instance_id, now)
    if not entry then return reply.refuse('worker_not_found') end
    if entry.session ~= a.session then
      return reply.refuse('worker_instance_in_use', entry.process)
    end
    entry.expires_at = math.max(entry.expires_at, now + a.ttl_ms)
    if a.running then entry.running, entry.heard_at = number.text(a.running), now end
    worker.put(w, p, a.worker_instance_id, entry)
    local capacity = tonumber(entry.capacity)
    local full = a.running and capacity and a.running >= capacity
    return reply.ok(entry.expires_at, full and 1 or 0)
  end,
}

define {
  name = 'ff_unregister_worker',
  doc = 'Takes a worker process off the list.',
  flags = { 'allow-oom' },
  args = { worker_instance_id, arg.uuid('session') },
  gives = { OK = {}, ALREADY_SATISFIED = {}, worker_instance_in_use = { 'process' } },
  run = function(p, a, now, w)
    local entry = worker.live(p, a.worker_instance_id, now)
    if not entry then return reply.already() end
    if entry.session ~= a.session then
      return reply.refuse('worker_instance_in_use', entry.process)
    end
    worker.forget(w, p, a.worker_instance_id)
    return reply.ok()
  end,
}

local ROW = { 'worker_instance_id', 'worker_id', 'registered_at', 'expires_at', 'capabilities',
  'lanes', 'kinds', 'running', 'capacity', 'heard_at', 'process', 'namespaces' }

define {
  name = 'ff_list_workers',
  doc = 'Lists the worker processes that are registered in a partition, sorted by instance.',
  flags = { 'no-writes' },
  args = {},
  gives = { OK = { 'workers' } },
  run = function(p, _, now)
    local rows, names, entries = {}, worker.all(p, now)
    for i = 1, #names do
      local entry = entries[names[i]]
      rows[i] = reply.row(ROW, { names[i], entry.worker_id, entry.registered_at, entry.expires_at,
        entry.capabilities, entry.lanes, entry.kinds, entry.running, entry.capacity,
        entry.heard_at, entry.process, entry.namespaces })
    end
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

-- Hands back a lease that its holder did not end: the attempt goes on with any other worker.
local function hand_back(w, p, uuid, now)
  local x = record.read(p, uuid)
  lease.withdraw(x)
  pause.until_time(w, x, now, now, 'release', 'released', 'worker_left')
end

define {
  name = 'ff_hand_back_leases',
  doc = 'Hands back leases of a leaving worker, which it names by their executions.',
  flags = { 'allow-oom' },
  args = {
    worker_instance_id,
    arg.rest(arg.execution('execution_ids'), 1, limit.release_scan_max),
  },
  gives = { OK = { 'released' } },
  run = function(p, a, now, w)
    local released, seen = 0, {}
    for i = 1, #a.execution_ids do
      local uuid = a.execution_ids[i]
      if not seen[uuid] and holds(p, uuid, a.worker_instance_id, now) then
        hand_back(w, p, uuid, now)
        released = released + 1
      end
      seen[uuid] = true
    end
    return reply.ok(released)
  end,
}

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
        hand_back(w, p, page[i], now)
        released = released + 1
      end
    end
    -- What was handed back is gone from where it was, or else is looked at again in vain.
    return reply.ok(released, #page == most and a.skip + most - released or '')
  end,
}

-- How much waits in a lane, and since when its heads do; and the same of each of its queues, as
-- rows of a list.
local function depth_of(p, lane, rows)
  local needs, depth, since = need.list(p, lane), 0, nil
  for i = 1, #needs do
    local queue = p.queue .. lane .. ':' .. needs[i]
    local head = redis.call('ZRANGE', queue, 0, 0)[1]
    local created_at = head and tonumber(redis.call('ZSCORE', p.all, head) or '')
    if created_at and (not since or created_at < since) then since = created_at end
    local waiting = redis.call('ZCARD', queue)
    if waiting > 0 then rows[#rows + 1] = { lane, needs[i], waiting, created_at or '' } end
    depth = depth + waiting
  end
  return depth, since
end

-- Where a row says how many wait.
local WAITING = 3

-- Those of the rows with most that waits.
local function longest(rows, most)
  if #rows <= most then return rows end
  table.sort(rows, function(one, other) return one[WAITING] > other[WAITING] end)
  local list = {}
  for i = 1, most do list[i] = rows[i] end
  return list
end

local NONE = {}

-- Of a lane that is paused nothing can be taken.
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
      local heads, count = NONE, 0
      if not lane.is_paused(p, a.lanes[listed]) then
        heads, count = need.heads(w, p, a.lanes[listed])
      end
      looked = looked + count
      for i = 1, #heads do rows[#rows + 1] = heads[i] end
    end
    return reply.ok(rows, listed)
  end,
}

define {
  name = 'ff_lane_depths',
  doc = 'Tells how much waits in lanes of a partition and in their longest queues, and since when.',
  flags = { 'no-writes' },
  args = { arg.rest(arg.label('lanes', limit.lane_bytes_max), 1, limit.lanes_max) },
  gives = { OK = { 'depths', 'needs' } },
  run = function(p, a)
    local rows, needs = {}, {}
    for i = 1, #a.lanes do
      local depth, since = depth_of(p, a.lanes[i], needs)
      rows[i] = { a.lanes[i], depth, since or '' }
    end
    return reply.ok(rows, longest(needs, limit.needs_told_max))
  end,
}

return true
