-- List: executions by namespace, lane, state, kind, tag and time, page by page. Each state is read
-- from the smallest index that holds it, so that a few failures are found among a million
-- successes.
-- A cursor is a place in the order of all partitions: it may be passed to any of them.

local arg = require('kernel.arg')
local define = require('kernel.define').define
local keys = require('kernel.keys')
local limit = require('kernel.limit')
local number = require('kernel.number')
local record = require('model.record')
local reply = require('kernel.reply')
local need = require('model.need')
local page = require('model.page')
local state = require('model.state')

local NONE = {}

local OUTCOME_OF = { completed = 'success', failed = 'failed', cancelled = 'cancelled',
  expired = 'expired', skipped = 'skipped' }

local read = record.reader { 'namespace', 'lane', 'kind', 'priority', 'created_at', 'ended_at',
  'attempt_count', 'worker_id', 'worker_instance_id', 'grant_expires_at', 'tagged', 'park_reason' }

-- Does a text come before another, byte by byte?
local function before(one, other)
  for i = 1, math.min(#one, #other) do
    local mine, its = string.byte(one, i), string.byte(other, i)
    if mine ~= its then return mine < its end
  end
  return #one < #other
end

-- Adds the queues of the lanes that are asked for.
local function add_queues(p, a, list)
  local queues = {}
  for i = 1, #a.lanes do
    local lane = a.lanes[i]
    local needs = (not a.lane or a.lane == lane) and need.list(p, lane) or NONE
    for j = 1, #needs do queues[#queues + 1] = 'q:' .. lane .. ':' .. needs[j] end
  end
  table.sort(queues, before)
  for i = 1, #queues do list[#list + 1] = queues[i] end
end

-- The indexes to read for a state, as named in a cursor: all, due, leases, parked, suspended,
-- ended:<outcome>, q:<lane>:<need>. They are read in the order of their names, byte by byte
-- whatever the locale: a caller who merges partitions relies on it.
local function sources(p, a)
  if not a.state then return { 'all' } end
  if OUTCOME_OF[a.state] then return { 'ended:' .. OUTCOME_OF[a.state] } end
  if a.state == 'suspended' then return { 'suspended' } end
  if a.state == 'waiting_children' or a.state == 'rate_limited' then return { 'all' } end
  local list = a.state == 'active' and { 'due', 'leases' } or { 'due' }
  if a.state == 'waiting' then list[2] = 'parked' end
  if a.state == 'waiting' or a.state == 'active' then
    add_queues(p, a, list)
  end
  return list
end

local function key_of(p, source)
  local name, outcome = string.match(source, '^q:(.*)$'), string.match(source, '^ended:(.*)$')
  if name then return p.queue .. name end
  if outcome then return p.ended[outcome] end
  return p[source]
end

-- source|score|member of the last entry that was looked at, the member in hex: it may be anything.
local function make_cursor(s)
  if not s.source then return nil end
  local hex = string.gsub(s.member, '.', function(byte)
    return string.format('%02x', string.byte(byte))
  end)
  return s.source .. '|' .. string.format('%.0f', s.score) .. '|' .. hex
end

-- The first queue of a list that comes behind this one; behind all if there is none.
local function first_behind(list, source)
  for i = 1, #list do
    if string.sub(list[i], 1, 2) == 'q:' and before(source, list[i]) then return i end
  end
  return #list + 1
end

local function parse_cursor(text, list)
  if text == '' then return { at = 1 } end
  local source, score, hex = string.match(text, '^(.+)|(%-?%d+)|(%x+)$')
  for i = 1, #list do
    if list[i] == source then
      local member = string.gsub(hex, '%x%x', function(byte)
        return string.char(tonumber(byte, 16))
      end)
      return { at = i, score = tonumber(score), member = member }
    end
  end
  -- The queue it was in is empty by now: on with the one behind it.
  return source and string.sub(source, 1, 2) == 'q:' and { at = first_behind(list, source) }
end

-- What is in `due` and in a queue that is walked too, or among what is parked, is listed once,
-- there.
local function elsewhere(a, source, x)
  if source == 'due' and x.state == 'parked' then return true end
  if source ~= 'due' or not state.CLAIMABLE[x.state] or x.grant_expires_at then return false end
  for i = 1, #a.lanes do if a.lanes[i] == x.lane then return true end end
  return false
end

local function has_tag(x, a)
  local value = x.tagged and redis.call('HGET', keys.tags(x.key), a.tag_name)
  return value and (not a.tag_value or value == a.tag_value)
end

local function matches(x, a)
  local created_at = number.stored(x.created_at, 0)
  -- What is not whole is not listed.
  return x.state ~= 'held' and (not a.namespace or x.namespace == a.namespace)
    and (not a.lane or x.lane == a.lane)
    and (not a.kind or x.kind == a.kind) and (not a.state or state.public(x) == a.state)
    and (not a.from_ms or created_at >= a.from_ms) and (not a.to_ms or created_at < a.to_ms)
    and (not a.tag_name or has_tag(x, a))
end

local ROW = { 'execution_id', 'namespace', 'lane', 'kind', 'public_state', 'priority',
  'created_at', 'ended_at', 'attempt_count', 'worker_id', 'worker_instance_id', 'source',
  'score' }

local function row(p, x, s)
  return reply.row(ROW, { p.tag .. x.uuid, x.namespace, x.lane, x.kind,
    state.public(x), x.priority or '0', x.created_at, x.ended_at, x.attempt_count or '0',
    x.worker_id, x.worker_instance_id, s.source, string.format('%.0f', s.score) })
end

-- Walks one index from the cursor; gives true when it is exhausted.
local function walk(p, a, s, source, cursor)
  local key = key_of(p, source)
  -- What is over and the whole list come newest first, what is live in the order of its index.
  local reverse = source == 'all' or string.sub(source, 1, 6) == 'ended:'
  local from = page.position(key, reverse, cursor)
  while true do
    local found = page.stretch(key, reverse, from, from + limit.list_page - 1)
    for i = 1, #found, 2 do
      if #s.rows >= a.limit or s.looked >= limit.list_scan_max then return false end
      s.looked = s.looked + 1
      s.source, s.score, s.member = source, tonumber(found[i + 1]), found[i]
      local x = not string.find(found[i], '^%l:') and read(p, found[i])
      if x and matches(x, a) and not elsewhere(a, source, x) then
        s.rows[#s.rows + 1] = row(p, x, s)
      end
    end
    if #found < 2 * limit.list_page then return true end
    from = from + limit.list_page
  end
end

define {
  name = 'ff_list_executions',
  doc = 'Lists executions of a partition by filter, from a cursor.',
  flags = { 'no-writes' },
  args = {
    arg.optional(arg.label('namespace', limit.namespace_bytes_max)),
    arg.optional(arg.label('lane', limit.lane_bytes_max)),
    arg.optional(arg.choice('state', { 'waiting', 'delayed', 'active', 'completed', 'failed',
      'cancelled', 'expired', 'skipped', 'suspended', 'waiting_children', 'rate_limited' })),
    arg.optional(arg.label('kind', limit.kind_bytes_max)),
    arg.optional(arg.moment('from_ms')),
    arg.optional(arg.moment('to_ms')),
    arg.optional(arg.text('tag_name', limit.tag_key_bytes_max)),
    arg.optional(arg.text('tag_value', limit.tag_value_bytes_max)),
    arg.text('cursor', limit.list_cursor_bytes_max),
    arg.int('limit', 1, limit.list_limit_max),
    arg.rest(arg.label('lanes', limit.lane_bytes_max), 0, limit.lanes_max),
  },
  gives = { OK = { 'executions', 'next_cursor' } },
  run = function(p, a)
    local list = sources(p, a)
    local cursor = parse_cursor(a.cursor, list)
    if not cursor then return reply.refuse('invalid_input', 'cursor is not of this listing') end
    local s = { rows = {}, looked = 0 }
    for i = cursor.at, #list do
      if not walk(p, a, s, list[i], i == cursor.at and cursor or {}) then
        return reply.ok(s.rows, make_cursor(s) or a.cursor)
      end
    end
    return reply.ok(s.rows, '')
  end,
}

define {
  name = 'ff_count_executions',
  doc = 'Counts the executions of a partition: all, those that run, and those that are over.',
  flags = { 'no-writes' },
  args = {},
  gives = { OK = { 'total', 'running', 'succeeded', 'failed', 'cancelled', 'expired', 'skipped' } },
  run = function(p)
    local counts = { redis.call('ZCARD', p.all), redis.call('ZCARD', p.leases) }
    for i = 1, #state.OUTCOMES do
      counts[#counts + 1] = redis.call('ZCARD', p.ended[state.OUTCOMES[i]])
    end
    return reply.ok(unpack(counts))
  end,
}

return true
