-- Capabilities: tokens a worker has and an execution may require. Kept sorted and comma-joined.

local limit = require('kernel.limit')

local capability = {}

local function wrong_token(token)
  if type(token) ~= 'string' then return 'non_string_token' end
  if token == '' then return 'empty_token' end
  if string.find(token, ',', 1, true) then return 'comma_in_token' end
  if string.find(token, '[%z\1-\32\127]') then return 'control_or_whitespace' end
  return nil
end

-- Sorted, de-duplicated and joined; or nil and which rule a token breaks.
function capability.join(tokens)
  if #tokens > limit.capabilities_max then return nil, 'too_many_tokens' end
  local seen, list = {}, {}
  for i = 1, #tokens do
    local wrong = wrong_token(tokens[i])
    if wrong then return nil, wrong end
    if not seen[tokens[i]] then
      seen[tokens[i]] = true
      list[#list + 1] = tokens[i]
    end
  end
  table.sort(list)
  local joined = table.concat(list, ',')
  if #joined > limit.capabilities_bytes_max then return nil, 'too_many_bytes' end
  return joined
end

local NONE = {}

-- The set that a comma-joined text spells; or nil and which rule it breaks.
function capability.parse(text)
  if #text > limit.capabilities_bytes_max then return nil, 'too_many_bytes' end
  if text == '' then return NONE end
  local set, count = {}, 0
  for token in string.gmatch(text .. ',', '([^,]*),') do
    count = count + 1
    local wrong = count > limit.capabilities_max and 'too_many_tokens' or wrong_token(token)
    if wrong then return nil, wrong end
    set[token] = true
  end
  return set
end

-- The required tokens that a worker lacks, sorted and joined; nil if it lacks none.
function capability.missing(required, has)
  if not required then return nil end
  local lacking = {}
  for token in string.gmatch(required, '[^,]+') do
    if not has[token] then lacking[#lacking + 1] = token end
  end
  return #lacking > 0 and table.concat(lacking, ',') or nil
end

return capability
