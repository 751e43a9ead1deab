-- Picking: what a worker is given of the queues it may take from, and what it was given before by a
-- call whose answer was lost.

local limit = require('kernel.limit')
local record = require('model.record')
local claim = require('model.claim')
local index = require('model.index')
local queue = require('model.queue')

local pick = {}

-- How long the longest of these rows is.
local function width_of(rows)
  local width = claim.PLAIN
  for i = 1, #rows do width = math.max(width, #rows[i]) end
  return width
end

-- Rows are joined to one flat list: an inner array for each would cost more than its contents. In
-- front stands how long each is, so that an older reader finds the next one.
function pick.joined(rows)
  if #rows == 1 then return { #rows[1], unpack(rows[1]) } end
  local width = width_of(rows)
  local list = { width }
  for i = 1, #rows do
    for j = 1, width do list[#list + 1] = rows[i][j] or claim.REST[j - claim.PLAIN] end
  end
  return list
end

-- Takes the best of these queues, as many as there are lease ids; gives what the worker is told,
-- and the score of the best one that is left. If `turn` is given, it names the worker of each.
function pick.best(w, p, a, names, lease_ids, now, turn)
  local rows, most, count, bytes = {}, #lease_ids, 0, 0
  local next_score = queue.walk(w, p, a, names, now, most, function(x)
    count = count + 1
    if turn then turn(count) end
    local row, size = claim.row(p, x, claim.take(w, x, a, lease_ids[count], now))
    rows[count], bytes = row, bytes + size
    return count < most and bytes < limit.claim_bytes_max
  end)
  return rows, next_score
end

local read_lease = record.reader { 'lease_id', 'worker_instance_id' }

-- What an earlier, unanswered send of a claim took: running under one of its lease ids, by this
-- worker process if one is named.
function pick.taken_before(p, instance, lease_ids, lease_ttl_ms, now)
  local holds, rows = {}, {}
  local live = index.about(p.leases, now, lease_ttl_ms)
  for i = 1, #live do
    local x = read_lease(p, live[i])
    if x and x.state == 'running'
      and (not instance or x.worker_instance_id == instance) then
      holds[x.lease_id or ''] = x.uuid
    end
  end
  for i = 1, #lease_ids do
    local uuid = holds[lease_ids[i]]
    local x = uuid and record.read(p, uuid)
    if x then rows[#rows + 1] = claim.row(p, x, claim.kind_of(x)) end
  end
  return rows
end

return pick
