-- Keys: every key of the library is built here and nowhere else. `p` is the partition's key,
-- `ff:{fp:N}`; an execution is named by its uuid alone, the tag stands in front once.

local keys = {}

-- Executions
function keys.execution(p, uuid) return p .. ':x:' .. uuid end            -- hash: the record
function keys.blob(record, name) return record .. ':' .. name end         -- string: a long value
function keys.tags(p, uuid) return p .. ':x:' .. uuid .. ':tags' end      -- hash
function keys.attempts(p, uuid) return p .. ':x:' .. uuid .. ':attempts' end -- list: past attempts

-- Indexes of a partition
function keys.queue(p, lane) return p .. ':q:' .. lane end                -- zset: claimable, best first
function keys.due(p) return p .. ':due' end                               -- zset: what happens later
function keys.ended(p, outcome) return p .. ':ended:' .. outcome end      -- zset: by purge time
function keys.all(p) return p .. ':all' end                               -- zset: by creation time
function keys.idempotency(p) return p .. ':idem' end                      -- hash: namespace:key
function keys.log(p) return p .. ':log' end                               -- stream: events

-- Kept in the first partition for the whole deployment
function keys.deployment(p) return p .. ':deployment' end                 -- hash: partition counts
function keys.lanes(p) return p .. ':lanes' end                           -- set: lane names

-- Channels
function keys.ready(p) return p .. ':ready' end
function keys.ended_channel(p) return p .. ':ended' end
function keys.due_channel(p) return p .. ':due' end

return keys
