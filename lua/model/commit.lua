-- Commit: the last step of every change of an execution. It will be written once, with all that
-- follows from its record, whatever else happens to it in this call; and, if the change has a name,
-- the log tells of it.

local event = require('model.event')
local flow = require('model.flow')
local gate = require('model.gate')
local log = require('model.log')

return function(w, x, name, why)
  -- What a closed gate holds back is not claimable.
  if (x.quota_id or x.budgets) and gate.concerns(x) then gate.park_if_closed(w.p, x) end
  if not x.changed then
    x.changed = true
    w[#w + 1] = x
  end
  if x.flow_id then flow.count(w, x) end
  if not name then return end
  if x.flow_id then flow.tell(w, x.flow_id) end
  local text = event.text(x, name, why)
  -- The first event is written with its record.
  if x.event then w[#w + 1] = log.entry(w.p, text) else x.event = text end
end
