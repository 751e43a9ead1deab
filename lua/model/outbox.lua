-- The outbox: what a partition owes to others. An effect beyond the partition is an entry here,
-- written by the call that owes it, carried out by the engine and acknowledged one by one; who
-- receives it recognises a repetition. An entry is a text that says all there is to know, so that
-- it means the same whatever becomes of what it is about; and no two are the same, so that an
-- acknowledgement that comes late removes nothing but what it is about:
--
--   release:<uuid>:<epoch>:<used>:<gates>  a lease is over, and what the gates gave it goes back
--   forget:<uuid>:<gates>                  the execution is gone, and what they know of it may go
--   wait:<uuid>:<epoch>:<when>:<gate>      it closed a gate, and waits there
--   open:<number>:<partition>:<count>:<gate>  so many may pass a gate in a partition
--   reached:<0 or 1>:<order>:<epoch>:<budget>:<execution>  how hard limits stand, for a lease
--
-- Its score is the time from which on it is to be carried out. Who is given entries has a while for
-- them, in which nobody else is given them; after that their carrier counts as dead.

local limit = require('kernel.limit')
local number = require('kernel.number')
local writes = require('kernel.writes')

local outbox = {}

-- Collects an entry, which is to be carried out now, or from a later time on.
function outbox.owe(w, text, at)
  local from = math.max(at or w.now, w.now)
  w[#w + 1] = { 'ZADD', w.p.outbox, from, text }
  writes.due(w, from)
end

-- Writes an entry at once, for those who write already.
function outbox.write(w, text)
  redis.call('ZADD', w.p.outbox, w.now, text)
  writes.due(w, w.now)
end

-- Collects an entry that the caller itself carries out, if it lives.
function outbox.hand_out(w, text)
  w[#w + 1] = { 'ZADD', w.p.outbox, w.now + limit.owed_carried_ms, text }
end

function outbox.settle(w, entries)
  for i = 1, #entries do writes.extend(w, 'ZREM', w.p.outbox, entries[i]) end
end

-- Gives the caller the entries whose time has come, up to so many.
function outbox.take(w, p, now, most)
  local list = redis.call('ZRANGE', p.outbox, '-inf', number.text(now), 'BYSCORE', 'LIMIT', 0, most)
  for i = 1, #list do
    writes.extend(w, 'ZADD', p.outbox, now + limit.owed_carried_ms, list[i])
  end
  return list
end

return outbox
