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

-- The budgets of an execution that is about to be created: those that its policy names, and those
-- of its scopes; nil if it has none. What was said of this one execution is said for good by that.
function attachment.of(w, p, a, named, flow_id)
  local all = { text = '' }
  for i = 1, named and #named or 0 do add(all, named[i]) end
  local namespace = fact.get(p, attachment.FACT, 'namespace:' .. a.namespace)
  local lane = fact.get(p, attachment.FACT, 'lane:' .. a.lane)
  local kind = fact.get(p, attachment.FACT, 'kind:' .. a.kind)
  if namespace then add(all, attachment.unquoted(namespace)) end
  if lane then add(all, attachment.unquoted(lane)) end
  if kind then add(all, attachment.unquoted(kind)) end
  local own = 'execution:' .. a.execution_id
  local found = redis.call('HMGET', p.attached, own, 'flow:' .. (flow_id or ''))
  if found[1] then
    add(all, found[1])
    w[#w + 1] = { 'HDEL', p.attached, own }
  end
  if found[2] then add(all, found[2]) end
  return all[1] and all or nil
end

return attachment
