-- Children: members that a running member adds to its own flow. Their parent counts those that are
-- not over; it does not wait for them by edges, so it may end before them. An attempt that was put
-- aside until they are over goes on when the last of them is, however they ended, and is told of
-- all of them whenever it is claimed.

local attempt = require('model.attempt')
local blob = require('model.blob')
local commit = require('model.commit')
local keys = require('kernel.keys')
local limit = require('kernel.limit')
local number = require('kernel.number')
local record = require('model.record')
local runnable = require('model.runnable')
local state = require('model.state')

local children = {}

-- The parent of a child, if this version knows what it is doing.
local function parent_of(w, x)
  local parent = record.read(w.p, x.parent)
  return parent and state.known(parent.state) and parent or nil
end

local function count_open(parent, by)
  local open = math.max(number.stored(parent.open_children, 0) + by, 0)
  if open > 0 then
    record.set(parent, 'open_children', open)
  else
    record.drop(parent, { 'open_children' })
  end
end

-- Puts a parent that was put aside where it belongs now that another number of its children is
-- open; `name` is what the log tells if it moves.
local function replace(w, parent, now, name)
  if runnable.state(parent, now) == parent.state then return commit(w, parent) end
  runnable.place(parent, now)
  if parent.state == 'blocked' then record.drop(parent, attempt.GRANT) end
  record.set(parent, 'transition_at', now)
  commit(w, parent, name)
end

-- Makes members, by their uuids, children of one.
function children.adopt(w, parent, uuids)
  record.set(parent, 'children', number.stored(parent.children, 0) + #uuids)
  count_open(parent, #uuids)
  w[#w + 1] = { 'RPUSH', keys.children(parent.key), unpack(uuids) }
  commit(w, parent, 'children_added', number.text(#uuids))
end

-- A child is over. If it was the last one that its parent waits for, that goes on.
function children.ended(w, x, now)
  local parent = parent_of(w, x)
  if not parent then return end
  count_open(parent, -1)
  if parent.state ~= 'blocked' or not parent.attempt_count then return commit(w, parent) end
  replace(w, parent, now, 'children_done')
end

-- A child that was over runs again. A parent that did not go on yet waits for it again.
function children.reopened(w, x, now)
  local parent = parent_of(w, x)
  if not parent then return end
  count_open(parent, 1)
  if not runnable.WAITING[parent.state] then return commit(w, parent) end
  replace(w, parent, now, 'waiting_children')
end

-- A parent that waits although none of its children is open goes on.
function children.reconsider(w, parent, now) replace(w, parent, now, 'children_done') end

local read_child = record.reader { 'member_name', 'result', 'result2', 'result3', 'result4' }

-- The result of a child if it has one and it fits.
local function fitting(x, room)
  if x.state ~= 'success' or blob.size(x, 'result') > room then return nil end
  return blob.get(x, 'result')
end

-- What a claim tells of all children: name, execution, state, whether its result follows, and the
-- result, while they fit beside so many bytes. Gives that, and how many bytes they are together.
function children.brought(p, x, bytes)
  local list, out = redis.call('LRANGE', keys.children(x.key), 0, limit.children_max - 1), {}
  for i = 1, #list do
    local child = read_child(p, list[i])
    local value = child and fitting(child, limit.claim_inputs_bytes - bytes)
    if child then
      out[#out + 1], out[#out + 2] = child.member_name or '', p.tag .. list[i]
      -- One that a newer version moves is at least not over.
      out[#out + 1] = state.public(child) or 'active'
      out[#out + 1], out[#out + 2] = value and 1 or 0, value or ''
      bytes = bytes + #(value or '')
    end
  end
  return out, bytes
end

return children
