-- Parking: an execution that must not be claimed until somebody lets it: `park_reason` says why.
-- What runs goes on to the end of its attempt, and what waits for something else goes on waiting;
-- where they would be claimable next they are parked instead (model/runnable.lua). Times that end
-- an execution count on.

local record = require('model.record')

local parking = {}

parking.BY_OPERATOR = 'paused_by_operator'

-- Another one has its singleton key.
parking.BY_POLICY = 'paused_by_policy'

-- All that is known of it.
parking.FIELDS = { 'park_reason', 'parked_at', 'parked_by', 'park_note' }

-- It must not be claimed from now on. `by` and `note` are for people, and may be empty.
function parking.forbid(x, reason, by, note, now)
  record.drop(x, { 'parked_by', 'park_note' })
  record.set(x, 'park_reason', reason)
  record.set(x, 'parked_at', now)
  if by ~= '' then record.set(x, 'parked_by', by) end
  if note ~= '' then record.set(x, 'park_note', note) end
end

-- It may be claimed again, unless it is not its turn.
function parking.allow(x, now)
  record.drop(x, parking.FIELDS)
  if x.awaits_turn then parking.forbid(x, parking.BY_POLICY, '', '', now) end
end

return parking
