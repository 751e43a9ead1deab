-- Keys: every key of the library is built here and nowhere else. A partition is named by its key,
-- `ff:{fp:N}`; an execution by its uuid alone, because the tag stands in front once. Quotas and
-- budgets, which executions of all partitions share, have partitions of their own.

local keys = {}

-- The family of the partitions that hold executions and flows.
keys.EXECUTIONS = 'fp'
-- Those of quota policies, and those of budgets.
keys.QUOTAS = 'q'
keys.BUDGETS = 'b'
keys.ALL = { keys.EXECUTIONS, keys.QUOTAS, keys.BUDGETS }

local function build(key, family)
  local p = {
    key = key,
    family = family,
    tag = string.sub(key, 4) .. ':',      -- what an execution id of this partition begins with
    execution = key .. ':x:',             -- + uuid, hash: the record
    queue = key .. ':q:',                 -- + lane:need, zset: claimable, best first
    needs = key .. ':needs:',             -- + lane, set: the needs of its queues
    queued = key .. ':queued',            -- zset: the lanes that have needs, by name
    due = key .. ':due',                  -- zset: what happens later, but to what runs
    leases = key .. ':leases',            -- zset: what runs, by the next time it needs attention
    suspended = key .. ':suspended',      -- zset: what is suspended, by since when
    parked = key .. ':parked',            -- zset: what must not be claimed, by since when
    all = key .. ':all',                  -- zset: every execution by creation time
    log = key .. ':log',                  -- stream: events
    trimmed = key .. ':trimmed',          -- string: there once events were trimmed away
    waitpoint = key .. ':wp:',            -- + id, hash: a waitpoint (model/waitpoint.lua)
    secrets = key .. ':secrets',          -- hash: keys of waitpoint tokens (model/secret.lua)
    facts = key .. ':facts',              -- hash: what every partition knows (model/fact.lua)
    shares = key .. ':shares:',           -- + lane, zset: who was served when (model/fair.lua)
    idempotency = key .. ':idem',         -- hash: namespace:key
    throttles = key .. ':throttles',      -- hash: who has a key (model/throttle.lua)
    turns = key .. ':turns:',             -- + namespace:kind:key, zset: who waits for it
    flow = key .. ':f:',                  -- + id, hash: a flow (model/flow.lua)
    flows = key .. ':flows',              -- zset: every flow, by id
    owing = key .. ':owing',              -- zset: flows that owe an end to members, by id
    deployment = key .. ':deployment',    -- hash: partition counts (first partition only)
    link_secrets = key .. ':link-secrets',-- hash: keys of approval links (first partition only)
    lanes = key .. ':lanes',              -- set: lanes in use (first partition only)
    lane_uses = key .. ':lane-uses',      -- zset: lanes by their last use (first partition only)
    workers = key .. ':workers',          -- hash: connected workers (model/worker.lua)
    marks = key .. ':marks',              -- hash: each server's mark (one partition of a shard)
    outbox = key .. ':outbox',            -- zset: what is owed to other partitions, by when to tell
    closed = key .. ':closed',            -- hash: gates that let nobody pass (model/gate.lua)
    gate = key .. ':gate:',               -- + gate, zset: who waits there, best first
    policy = key .. ':policy:',           -- + id, hash: a quota policy (model/quota.lua)
    holders = key .. ':holders:',         -- + gate, zset: who holds a place, by since when
    admitted = key .. ':admitted:',       -- + gate, hash: whose leases passed and are over
    window = key .. ':window:',           -- + gate, zset: whom the window let pass, by when
    waiting = key .. ':waiting:',         -- + gate, zset: partitions that wait (model/waiting.lua)
    openings = key .. ':openings:',       -- + gate, hash: what was opened for them
    attached = key .. ':attached',        -- hash: budgets of flows and executions to come
    budgets = key .. ':budgets',          -- zset: every budget, by id (budgets only)
    budget = key .. ':budget:',           -- + id, hash: a budget (model/budget.lua)
    ended = {},                           -- outcome -> zset: what is over, by purge time
    untrimmed = 0,                        -- appends to the log since it was last trimmed
    trim_at = 0,                          -- when the log is next looked at for old events
    left_alone = {},                      -- index -> entries at its head that ticks do not know
    look_at = 0,                          -- when the engine looks here next, if that is known
    purge_at = 0, purges_read_at = 0,     -- the next purge, and when that was found out
    listeners = 0,                        -- how many heard of work here when it was last told
    first_read = nil, read = nil,         -- what this call has read: an execution, others by uuid
    waitpoints = nil, flows_read = nil,   -- and waitpoints and flows, by id
    facts_read = nil,                     -- and facts, by name
    throttled = nil, turns_taken = nil,   -- and who has the keys of throttles
    facts_revision = nil, facts_known = nil, facts_count = 0, -- what calls have read of them
    ready_channel = key .. ':ready',
    ended_channel = key .. ':ended',
    due_channel = key .. ':due',
    frames_channel = key .. ':frames:',   -- + uuid
    flow_channel = key .. ':flow:',       -- + id
  }
  for _, outcome in ipairs({ 'success', 'failed', 'cancelled', 'expired', 'skipped' }) do
    p.ended[outcome] = key .. ':ended:' .. outcome
  end
  return p
end

keys.known = {}

-- The keys of a partition, made once; nil if the key does not name a partition.
function keys.partition(key)
  local family = string.match(key or '', '^ff:{(%l+):%d+}$')
  if not family then return nil end
  local p = build(key, family)
  keys.known[key] = p
  return p
end

-- The keys of the first partition, for whoever is not called on one.
function keys.first() return keys.known['ff:{fp:0}'] or keys.partition('ff:{fp:0}') end

-- What belongs to one execution besides its record.
function keys.blob(record, name) return record .. ':' .. name end        -- string: a long value
function keys.tags(record) return record .. ':tags' end                   -- hash
function keys.attempts(record) return record .. ':attempts' end           -- list: past attempts
function keys.undo(record) return record .. ':undo' end  -- string: what a refused claim puts back
function keys.budgets(record) return record .. ':budgets' end             -- string: its budgets
function keys.waitpoints(record) return record .. ':waitpoints' end       -- hash: its waitpoints

-- Of a quota policy: the gates that somebody waits for, by since when.
function keys.awaited(policy) return policy .. ':awaited' end             -- zset

-- Of a budget: who has used it, by when last; what each of them has; what happened to it.
function keys.users(budget) return budget .. ':users' end                 -- zset: execution ids
function keys.usage(budget, execution) return budget .. ':of:' .. execution end  -- hash
function keys.reports(usage) return usage .. ':reports' end                -- hash, by their keys
function keys.happened(budget) return budget .. ':events' end             -- list, oldest first

function keys.signals(waitpoint) return waitpoint .. ':signals' end       -- hash: its signals

-- What belongs to a member of a flow: both ends of its edges, and what is passed to it.
function keys.outgoing(record) return record .. ':out' end                -- list
function keys.incoming(record) return record .. ':in' end                 -- list
function keys.inputs(record) return record .. ':inputs' end               -- list
function keys.children(record) return record .. ':children' end           -- list: their uuids

-- What belongs to one flow besides its record.
function keys.members(flow) return flow .. ':m' end                       -- zset: by ordinal
function keys.edge_ids(flow) return flow .. ':e' end                      -- hash: ids of callers
function keys.stuck(flow) return flow .. ':stuck' end                     -- zset: damaged members

function keys.frames(record, attempt) return record .. ':s:' .. attempt end  -- stream: its output
function keys.document(record, attempt) return record .. ':s:' .. attempt .. ':d' end  -- string

return keys
