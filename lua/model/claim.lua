-- Claims: what all ways of taking an execution have in common: the worker's arguments, the start
-- of the attempt, and everything the worker needs to begin.

local arg = require('kernel.arg')
local blob = require('model.blob')
local keys = require('kernel.keys')
local limit = require('kernel.limit')
local number = require('kernel.number')
local record = require('model.record')
local attempt = require('model.attempt')
local children = require('model.children')
local commit = require('model.commit')
local fair = require('model.fair')
local gate = require('model.gate')
local input = require('model.input')
local lease = require('model.lease')
local stream = require('model.stream')
local suspension = require('model.suspension')
local undo = require('model.undo')
local waitpoint = require('model.waitpoint')

local claim = {}

-- What a claim tells the worker, in order. A newer version may add to its end.
claim.ROW = { 'execution_id', 'lease_id', 'lease_epoch', 'lease_expires_at', 'attempt_id',
  'attempt_index', 'attempt_type', 'lane', 'kind', 'namespace', 'priority', 'created_at',
  'attempt_timeout_at', 'deadline_at', 'payload', 'tags', 'next_frame', 'resume', 'inputs',
  'children', 'gates' }

function claim.worker_args()
  return arg.label('worker_id', limit.worker_bytes_max),
    arg.label('worker_instance_id', limit.worker_bytes_max)
end

function claim.ttl()
  return arg.int('lease_ttl_ms', limit.lease_ttl_ms_min, limit.lease_ttl_ms_max)
end

-- What the end of a row tells of an execution without output, waits, inputs, children and gates.
-- Most are such, and their rows leave it out; a reader who misses it knows.
claim.REST = { 1, '', '', '', '' }
claim.PLAIN = #claim.ROW - #claim.REST

-- Adds the end of a row; gives how many bytes that is.
local function extend(p, x, row)
  local resume, bytes = suspension.resumption(waitpoint.latest(p, x))
  local inputs, results, more = '', '', 0
  if x.inputs then inputs, more = input.brought(p, x) end
  if x.children then results, more = children.brought(p, x, more) end
  row[#row + 1] = x.frames and stream.next_sequence(x) or 1
  row[#row + 1] = resume
  row[#row + 1] = inputs
  row[#row + 1] = results
  row[#row + 1] = gate.list(x) or ''
  return bytes + more
end

-- The input. Who asked for nothing is given the one result that is passed to it.
local function payload_of(p, x)
  local payload = blob.get(x, 'payload') or ''
  if payload ~= '' or x.inputs ~= '1' or not x.dependencies then return payload end
  return input.first(p, x)
end

-- Everything the worker needs, so that no other read follows a claim; and how many bytes that is.
function claim.row(p, x, kind)
  local tags = x.tagged and redis.call('HGETALL', keys.tags(x.key)) or ''
  local payload = payload_of(p, x)
  local row = { p.tag .. x.uuid, x.lease_id, x.lease_epoch, x.lease_expires_at,
    lease.attempt_id(x), attempt.index(x), kind, x.lane, x.kind, x.namespace, x.priority or 0,
    x.created_at, x.timeout_at or '', x.deadline_at or '', payload, tags }
  if not x.marked then return row, #payload end
  return row, extend(p, x, row) + #payload
end

-- Takes the execution: a paused attempt goes on, otherwise a new one begins.
function claim.take(w, x, a, lease_id, now)
  local kind
  if x.quota_id or x.budgets then
    undo.keep(w, x, undo.snapshot(x))
    record.drop(x, { 'passes' })
  end
  if x.next_attempt == 'resume' and x.state == 'waiting' then
    kind = attempt.resume(x, a, lease_id, now)
  else
    kind = attempt.begin(w, x, a, lease_id, now)
  end
  if x.fair_rank then fair.serve(w, w.p, x) end
  commit(w, x, 'claimed', kind)
  return kind
end

-- May a claim start this execution at all? One past its deadline is left to the tick.
function claim.in_time(x, now)
  return not x.deadline_at or number.stored(x.deadline_at, 0) > now
end

-- What the latest claim of a running execution was, for a repeated call.
function claim.kind_of(x)
  return x.resumed_at and 'resumed' or attempt.kind(x)
end

return claim
