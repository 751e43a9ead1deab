-- Runnable: the one place that decides where an execution goes that is neither running nor over,
-- whatever brought it there: creation, a pause, a retry, a resume, a replay, the end of a delay, of
-- an upstream or of a child. A time before which it must not run stays known until the next claim,
-- for those who ask again what they were told.

local number = require('kernel.number')
local record = require('model.record')
local state = require('model.state')

local runnable = {}

-- How many upstreams must be satisfied, how many edges there are, and how many of them are
-- satisfied and impossible; nothing if the execution depends on nobody. See model/edge.lua.
function runnable.dependencies(x)
  local needed, edges, satisfied, impossible =
    string.match(x.dependencies or '', '^(%d*):(%d+):(%d+):(%d+)$')
  if not needed then return nil end
  edges = tonumber(edges)
  return tonumber(needed) or edges, edges, tonumber(satisfied), tonumber(impossible)
end

-- Has it begun to run? A replay may let it wait for its upstreams again.
function runnable.has_begun(x) return x.attempt_count and not x.waits_again end

-- Does the execution wait for upstreams of its flow?
local function depends(x)
  local needed, _, satisfied = runnable.dependencies(x)
  return needed and satisfied < needed and not runnable.has_begun(x)
end

-- Is an attempt paused until children of the execution are over that are not?
local function awaits_children(x)
  return x.pause_kind == 'children' and x.next_attempt == 'resume'
    and number.stored(x.open_children, 0) > 0
end

-- The state of a runnable execution that waits for nobody of its flow. What must not be claimed is
-- parked, whatever time it waits for; one whose lease was lost is taken over.
function runnable.free_state(x, now)
  if x.park_reason then return 'parked' end
  local lost = x.attempt_end and state.lost_as(x)
  if lost then return lost end
  if x.delay_until and number.stored(x.delay_until, 0) > now then return 'delayed' end
  return 'waiting'
end

-- The state of a runnable execution: what holds it decides.
function runnable.state(x, now)
  if x.held then return 'held' end
  if x.dependencies and depends(x) then return 'blocked' end
  if x.open_children and awaits_children(x) then return 'blocked' end
  return runnable.free_state(x, now)
end

-- The states of what waits for nobody of its flow.
runnable.WAITING = { waiting = true, delayed = true, parked = true }

-- It must not run before `at`.
function runnable.delay(x, at, reason)
  record.set(x, 'delay_until', at)
  record.set(x, 'delay_reason', reason)
end

-- Puts the execution where it belongs now.
function runnable.place(x, now) record.set(x, 'state', runnable.state(x, now)) end

return runnable
