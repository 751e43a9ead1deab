-- Waiting: which partitions have executions that wait for a gate, with the best score of each, and
-- what was opened for them. A freed place, a window that opens or a limit that is raised opens the
-- gate in the best partitions for as many as may pass, and nowhere else. Who was let pass keeps its
-- place free for a moment; if nobody has taken it by then, because no worker wanted it, it is given
-- to the next.
--
-- The record of openings: `number`, that of the latest, which is a time, so that none comes twice;
-- `promised` and `until`, for how many a place is kept free and until when; `joined:<partition>`,
-- the latest opening when the partition said that it waits; `left:<partition>`, how many were left
-- there when it was asked last, and `out:<partition>`, for how many it was opened since.

local limit = require('kernel.limit')
local number = require('kernel.number')
local outbox = require('model.outbox')
local writes = require('kernel.writes')

local waiting = {}

-- How many more may pass a gate now, when more may, and when nothing is left to be known of it if
-- nobody comes; by the gate's letter: function(w, p, gate, now).
waiting.free = {}

-- What follows when somebody begins or ceases to wait for a gate: function(w, p, gate, is_waiting).
waiting.on = {}

-- What stands for a gate in `due`.
waiting.PREFIX = 'g:'

local function letter(gate) return string.sub(gate, 1, 1) end

local function read(p, gate)
  local found = redis.call('HMGET', p.openings .. gate, 'number', 'promised', 'until')
  return { number = number.stored(found[1], 0), promised = number.stored(found[2], 0),
    kept_until = number.stored(found[3], 0) }
end

-- For how many a place is kept free.
local function promised(o, now) return now < o.kept_until and o.promised or 0 end

-- A partition waits, and this is the best score there.
function waiting.join(w, p, gate, partition, score)
  w[#w + 1] = { 'ZADD', p.waiting .. gate, score, partition }
  w[#w + 1] = { 'HSET', p.openings .. gate, 'joined:' .. partition,
    number.text(math.max(read(p, gate).number, w.now)) }
  w[#w + 1] = { 'HDEL', p.openings .. gate, 'left:' .. partition }
  if waiting.on[letter(gate)] then waiting.on[letter(gate)](w, p, gate, true) end
end

-- A partition does not wait any more.
local function leave(w, p, gate, partition)
  w[#w + 1] = { 'ZREM', p.waiting .. gate, partition }
  w[#w + 1] = { 'HDEL', p.openings .. gate, 'joined:' .. partition, 'left:' .. partition }
end

-- Somebody passed: a place that was kept free for somebody is taken.
function waiting.passed(w, p, gate, now)
  local o = read(p, gate)
  local kept = promised(o, now)
  if kept > 0 then
    w[#w + 1] = { 'HSET', p.openings .. gate, 'promised', number.text(kept - 1) }
  end
end

-- When to look at a gate again: while somebody waits, when a place that is kept free is given up,
-- or when more may pass. Of a gate that nobody waits for, only what is left is cleared away.
local function look_again(w, p, gate, at)
  local member = waiting.PREFIX .. gate
  if at then
    w[#w + 1] = { 'ZADD', p.due, number.text(at), member }
    writes.due(w, at)
  else
    w[#w + 1] = { 'ZREM', p.due, member }
  end
end

local function earlier(one, other)
  if not one or other and other < one then return other end
  return one
end

-- For how many more a gate may be opened in each of these partitions, and for how many it was: no
-- more than wait there. Where that is not known yet, it is when the first opening is settled.
local function rooms(p, gate, partitions)
  local names, free, out = {}, {}, {}
  for i = 1, #partitions do
    names[2 * i - 1], names[2 * i] = 'left:' .. partitions[i], 'out:' .. partitions[i]
  end
  local known = redis.call('HMGET', p.openings .. gate, unpack(names))
  for i = 1, #partitions do
    out[i] = number.stored(known[2 * i], 0)
    local left = number.stored(known[2 * i - 1], out[i] == 0 and limit.gate_open_max or 0)
    free[i] = left - out[i]
  end
  return free, out
end

-- Shares places among partitions, the best ones first: one each, or several where they are fewer.
-- Gives for how many it is opened in each, and for how many altogether.
local function share(free, most)
  local counts, given, before = {}, 0, nil
  for i = 1, #free do counts[i] = 0 end
  while given < most and given ~= before do
    before = given
    local each = math.floor((most - given + #free - 1) / #free)
    for i = 1, #free do
      local more = math.max(math.min(each, free[i] - counts[i], most - given), 0)
      counts[i], given = counts[i] + more, given + more
    end
  end
  return counts, given
end

-- Opens the gate in the best partitions. Gives what was opened, as entries of the outbox, and for
-- how many. Where all who are known to wait may pass already, more is known when that is settled.
local function open(w, p, gate, o, most, kept, carry)
  local best = redis.call('ZRANGE', p.waiting .. gate, 0,
    math.min(most + kept, limit.gate_open_max) - 1)
  local free, out = rooms(p, gate, best)
  local counts, given = share(free, math.min(most, limit.gate_open_max))
  local entries = {}
  for i = 1, #best do
    if counts[i] > 0 then
      o.number = math.max(o.number, w.now) + 1
      local entry = 'open:' .. number.text(o.number) .. ':' .. best[i] .. ':'
        .. number.text(counts[i]) .. ':' .. gate
      entries[#entries + 1] = entry
      w[#w + 1] = { 'HSET', p.openings .. gate, 'out:' .. best[i],
        number.text(out[i] + counts[i]) }
      carry(w, entry)
    end
  end
  return entries, given
end

-- Nobody waits for a gate. What was opened is forgotten when no number of it can come again.
local function rest(w, p, gate, o, now, clear_at)
  if o.number > 0 and math.max(o.number, o.kept_until) < now then
    w[#w + 1] = { 'DEL', p.openings .. gate }
  elseif o.number > 0 then
    clear_at = math.max(clear_at or 0, o.number + 1, o.kept_until + 1)
  end
  if waiting.on[letter(gate)] then waiting.on[letter(gate)](w, p, gate, false) end
  look_again(w, p, gate, clear_at)
end

-- Looks at a gate: opens it for as many as may pass, and says when to look again. `carry` is how an
-- opening is owed. Gives the openings.
function waiting.attend(w, p, gate, now, carry)
  local free, again_at, clear_at = waiting.free[letter(gate)](w, p, gate, now)
  local o = read(p, gate)
  local kept, entries, given = promised(o, now), {}, 0
  if redis.call('ZCARD', p.waiting .. gate) == 0 then
    rest(w, p, gate, o, now, clear_at)
    return entries
  end
  if free > kept then entries, given = open(w, p, gate, o, free - kept, kept, carry) end
  local until_ms = given > 0 and now + limit.opening_kept_ms or kept > 0 and o.kept_until or nil
  if given > 0 then
    w[#w + 1] = { 'HSET', p.openings .. gate, 'number', number.text(o.number), 'promised',
      number.text(kept + given), 'until', number.text(until_ms) }
  end
  look_again(w, p, gate, earlier(again_at, until_ms))
  return entries
end

-- What was opened in a partition was carried out there.
local function settle_out(w, p, gate, partition, count)
  local key, name = p.openings .. gate, 'out:' .. partition
  local out = number.stored(redis.call('HGET', key, name), 0) - count
  w[#w + 1] = out > 0 and { 'HSET', key, name, number.text(out) } or { 'HDEL', key, name }
end

-- An opening was carried out: so many were let pass of those that it was for, and so many wait on
-- there, from this score on. One that was settled before changes nothing.
function waiting.settle(w, p, gate, entry, opened, left, best, now)
  if not redis.call('ZSCORE', p.outbox, entry) then return false end
  local order, partition, count = string.match(entry, '^open:(%d+):(%d+):(%d+):')
  outbox.settle(w, { entry })
  settle_out(w, p, gate, partition, tonumber(count))
  if left > 0 then
    w[#w + 1] = { 'ZADD', p.waiting .. gate, best, partition }
    w[#w + 1] = { 'HSET', p.openings .. gate, 'left:' .. partition, number.text(left) }
  elseif number.stored(redis.call('HGET', p.openings .. gate, 'joined:' .. partition), 0)
    < tonumber(order) then
    leave(w, p, gate, partition)
  end
  local o = read(p, gate)
  local kept = math.max(promised(o, now) - math.max(tonumber(count) - opened, 0), 0)
  if kept ~= o.promised then
    w[#w + 1] = { 'HSET', p.openings .. gate, 'promised', number.text(kept) }
  end
  return true
end

return waiting
