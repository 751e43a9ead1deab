-- Attachments: which budgets apply to what is created in a scope. Those of namespaces, lanes and
-- kinds are facts, which every partition knows; those of a flow or of one execution are known where
-- it lives. An execution has the budgets that were attached when it was created, and no others.

local limit = require('kernel.limit')
local fact = require('model.fact')

local attachment = {}

-- The word before the scopes in facts.
attachment.FACT = 'budget:'

local function is_listed(text, id) return string.find(text, id, 1, true) ~= nil end

-- The ids in a text, which are joined by commas.
local function each(text, visit)
  for id in string.gmatch(text or '', '[%x-]+') do visit(id) end
end

-- A list of ids with one more, or one less; nil if there would be too many.
function attachment.changed(text, id, is_attached)
  local list = {}
  each(text, function(other) if other ~= id then list[#list + 1] = other end end)
  if is_attached then list[#list + 1] = id end
  if #list > limit.budgets_max then return nil end
  table.sort(list)
  return table.concat(list, ',')
end

-- The text of a fact, which is JSON, and the list in it.
function attachment.quoted(text) return text == '' and '' or '"' .. text .. '"' end
function attachment.unquoted(text) return text and string.match(text, '^"(.*)"$') or '' end

-- Adds the ids of a list to others that are not among them yet.
local function add(all, text)
  each(text, function(id)
    if not is_listed(all.text, id) then
      all[#all + 1] = id
      all.text = all.text .. ',' .. id
    end
  end)
end

-- Adds what is attached to a scope that every partition knows.
local function add_known(all, p, scope)
  local text = fact.get(p, attachment.FACT, scope)
  if text then add(all, attachment.unquoted(text)) end
end

-- The budgets of an execution that is about to be created: those that its policy names, and those
-- of its scopes; nil if it has none. What was said of this one execution is said for good by that.
function attachment.of(w, p, a, named, flow_id)
  local own = 'execution:' .. a.execution_id
  local attached = redis.call('HGET', p.attached, own)
  local of_flow = flow_id and redis.call('HGET', p.attached, 'flow:' .. flow_id)
  if not named and not attached and not of_flow and not fact.any(p) then return nil end
  local all = { text = '' }
  for i = 1, named and #named or 0 do add(all, named[i]) end
  add_known(all, p, 'namespace:' .. a.namespace)
  add_known(all, p, 'lane:' .. a.lane)
  add_known(all, p, 'kind:' .. a.kind)
  if attached then
    add(all, attached)
    w[#w + 1] = { 'HDEL', p.attached, own }
  end
  if of_flow then add(all, of_flow) end
  return all[1] and all or nil
end

return attachment
