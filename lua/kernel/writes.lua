-- Writes: collected while a function decides, applied by one loop at its end. A bug in a decision
-- therefore writes nothing, and no decision ever sees half of its own effects. What is collected is
-- a changed record, something that knows how it is written (`write`), or a command as a list. They
-- know the call: `p` are the keys of its partition, `now` is its time. What follows from all
-- records together, and knows how it is written, comes behind them (`writes.last`).

local limit = require('kernel.limit')

local writes = {}

local SWEEP_MS = limit.tick_sweep_ms

-- How a record is written is said by who knows what it is.
local write_record

-- And so is what all of them together mean to those who wait for work.
local announce

-- `forget` makes whatever is read of a partition from now on be read anew.
function writes.teach(record_writer, announcer, forget)
  write_record, announce, writes.forget = record_writer, announcer, forget
end

function writes.new(p, now)
  return { p = p, now = now, channel = nil, message = nil, ready = nil, best = nil, count = nil,
    due_at = nil, nil, nil }
end

-- Collects what is written behind all else.
function writes.last(w, item)
  local late = w.late or {}
  late[#late + 1], w.late = item, late
end

local function apply_late(w)
  local late = w.late
  w.late = nil
  for i = 1, #late do late[i].write(w, late[i]) end
end

-- A call that changes many records writes their entries in an index by one command: those of this
-- name and key are collected, and written behind the records.
local function joiner(list)
  local known = { ZADD = {}, ZREM = {} }
  return function(name, key, word, other)
    local commands = known[name]
    local command = commands[key]
    if not command then
      command = { name, key, nil, nil }
      commands[key], list[#list + 1] = command, command
    end
    command[#command + 1] = word
    if other then command[#command + 1] = other end
  end
end

local function begin_joining(w)
  w.joined = {}
  w.call = joiner(w.joined)
end

-- From now on this call collects the entries in indexes, and the names of what has ended, of which
-- one push tells.
function writes.join(w)
  w.ended_names = {}
  begin_joining(w)
end

local function apply_joined(w)
  local list = w.joined
  for i = 1, #list do redis.call(unpack(list[i])) end
  begin_joining(w)
end

local function apply(w)
  local i, item = 1, w[1]
  if w.shared then w.shared = nil end
  while item do
    w[i] = nil
    if item.uuid then
      write_record(w, item)
    elseif item.write then
      item.write(w, item)
    else
      redis.call(unpack(item))
    end
    i = i + 1
    item = w[i]
  end
  if w.joined then apply_joined(w) end
  if w.late then apply_late(w) end
end

-- Adds words to a command that other parts of the call add to as well, such as entries of a list:
-- one command costs a fraction of many.
function writes.extend(w, name, key, word, other)
  local shared = w.shared
  if not shared then
    shared = {}
    w.shared = shared
  end
  local command = shared[key]
  if not command then
    command = { name, key, nil, nil }
    shared[key], w[#w + 1] = command, command
  end
  command[#command + 1] = word
  if other then command[#command + 1] = other end
end

-- Writes what was collected so far, and the call goes on. The pushes wait.
function writes.flush(w)
  apply(w)
  writes.forget(w.p)
end

-- Collects a push. Many executions of one call often wake the same waiters, for whom once is
-- enough.
function writes.push(w, channel, message)
  if not w.channel then
    w.channel, w.message = channel, message
    return
  end
  if w.message == message and w.channel == channel then return end
  local pushes, pushed = w.pushes, w.pushed
  if not pushes then
    pushes, pushed = { w.channel, w.message }, { [w.channel .. ':' .. w.message] = true }
    w.pushes, w.pushed = pushes, pushed
  end
  local subject = channel .. ':' .. message
  if pushed[subject] then return end
  pushed[subject] = true
  local count = #pushes
  pushes[count + 1], pushes[count + 2] = channel, message
end

-- Something happens by itself at this time.
function writes.due(w, at)
  local due_at = w.due_at
  if not due_at or at < due_at then w.due_at = at end
end

-- The engine says that it looks here at this time at the latest, and has seen all there is.
function writes.seen(w, look_at) w.due_at, w.p.look_at = nil, look_at end

-- The engine is told of a time before its next look. It then looks earlier, and what lies behind
-- that it will see by itself. Of one whose look is overdue nothing is known.
local function bring_forward(w)
  local p, at, now = w.p, w.due_at, w.now
  local look_at = p.look_at > now and p.look_at or now + SWEEP_MS
  if at >= look_at then return end
  p.look_at = at
  writes.push(w, p.due_channel, string.format('%.0f', math.max(at, now)))
end

-- Wakes those who wait. The store may refuse a push, and what was done stays done: whoever missed
-- it looks by himself sooner or later.
local function send(p, channel, message)
  local heard = redis.pcall('SPUBLISH', channel, message)
  if channel == p.ready_channel and type(heard) == 'number' then p.listeners = heard end
end

local function wake(w)
  local pushes = w.pushes
  if not pushes then return send(w.p, w.channel, w.message) end
  for i = 1, #pushes, 2 do send(w.p, pushes[i], pushes[i + 1]) end
end

-- Writes everything, and then sends the pushes.
function writes.finish(w)
  apply(w)
  if w.ended_names and w.ended_names[1] then
    writes.push(w, w.p.ended_channel, table.concat(w.ended_names, ' '))
  end
  if w.ready then announce(w) end
  if w.due_at then bring_forward(w) end
  if w.channel then wake(w) end
end

return writes
