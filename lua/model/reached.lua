-- Reached: what budgets have told a running execution about their hard limits, so that its next
-- renewal finds it in the record. The text is the epoch of the lease that was told, and of each
-- budget that told it, its place among those of the execution and the number of what it told, which
-- is negative if its limit is not reached any more: `4:1=17,2=-19`. Numbers grow, so that what is
-- told again late changes nothing; and what another lease was told does not count.

local gate = require('model.gate')
local number = require('kernel.number')
local record = require('model.record')

local reached = {}

-- What this lease was told: numbers by place.
local function read(x)
  local epoch, list = string.match(x.budgets_reached or '', '^(%d+):(.*)$')
  local told = {}
  if not epoch or epoch ~= x.lease_epoch then return told end
  for place, value in string.gmatch(list, '(%d+)=(%-?%d+)') do
    told[tonumber(place)] = tonumber(value)
  end
  return told
end

local function write(x, told, count)
  local parts = {}
  for place = 1, count do
    if told[place] then
      parts[#parts + 1] = number.text(place) .. '=' .. string.format('%.0f', told[place])
    end
  end
  record.set(x, 'budgets_reached', x.lease_epoch .. ':' .. table.concat(parts, ','))
end

-- Notes what a budget tells; gives whether that is new.
function reached.note(x, id, order, is_reached)
  local ids, place = gate.budget_ids(x), nil
  for i = 1, #ids do if ids[i] == id then place = i end end
  local told = place and read(x)
  if not told or order <= math.abs(told[place] or 0) then return false end
  told[place] = is_reached and order or -order
  write(x, told, #ids)
  return true
end

-- The budgets whose hard limits are reached, as far as this lease was told.
function reached.list(x)
  local ids, told, list = gate.budget_ids(x), read(x), {}
  for i = 1, #ids do
    if (told[i] or 0) > 0 then list[#list + 1] = ids[i] end
  end
  return list
end

return reached
