-- Conditions: which signals end a wait. Given as JSON, checked before anything is written, kept as
-- it was given together with a short text that says which signals have counted so far.
--
--   {"type": "any", "signals": [name, …]}              one signal of these names
--   {"type": "all", "signals": [name, …]}              one signal for each of the names
--   {"type": "count", "count": n, "signals": [name, …]} n signals of these names
--   {"type": "any_of" | "all_of", "conditions": [condition, …]}
--   {"type": "operator_only"}, {"type": "timeout_only"} no signal at all; only at the top
--
-- The name `*` stands for any. The first three may have `source_type`, which a signal must then
-- have, and count may have `distinct_sources`: only one signal of each source counts. The outermost
-- may have `allow_operator_override`. A signal counts once in each condition that it fits.
--
-- The flat form without `type` is taken too: `required_signal_names` with `signal_match_mode` and
-- `minimum_signal_count`, or `condition_type` operator_only or timeout_only; there the empty name
-- stands for any as well.

local json = require('kernel.json')
local limit = require('kernel.limit')
local number = require('kernel.number')
local pack = require('kernel.pack')

local condition = {}

local ANY = '*'

local function wrong(s, path, rule)
  if not s.wrong then s.wrong = (path == '' and '' or path .. ': ') .. rule end
  return nil
end

local function is_text(value, bytes_max)
  return type(value) == 'string' and #value >= 1 and #value <= bytes_max
    and not string.find(value, '[^ -~]') and not string.find(value, '^ ')
    and not string.find(value, ' $')
end

-- Is this what a signal may be called?
function condition.is_name(text)
  return text ~= ANY and is_text(text, limit.signal_name_bytes_max)
end

-- Checks that an object has no other members than these.
local function members(s, value, path, known)
  for i = 1, #value.keys do
    local name = value.keys[i]
    if not known[name] then
      return wrong(s, string.sub(path .. '.' .. name, 1, 128), 'unknown field')
    end
  end
  return true
end

local function list_of(s, value, path, name)
  local list = value.values[name]
  if type(list) ~= 'table' or list.kind ~= 'list' or #list == 0 then
    return wrong(s, path .. '.' .. name, 'must be a list with at least one entry')
  end
  return list
end

local function whole(s, value, path, name, high)
  local count = value.values[name]
  if type(count) ~= 'number' or count % 1 ~= 0 or count < 1 or count > high then
    return wrong(s, path .. '.' .. name, 'must be a whole number from 1 to ' .. high)
  end
  return count
end

local function flag(s, value, path, name, default)
  local given = value.values[name]
  if given == nil then return default end
  if type(given) ~= 'boolean' then
    wrong(s, path .. '.' .. name, 'must be true or false')
    return default
  end
  return given
end

-- The names that a leaf listens to. `*` comes out as it went in.
local function read_names(s, list, path)
  local names = {}
  s.names = s.names + #list
  if s.names > limit.condition_names_max then
    return wrong(s, path, 'must have at most ' .. limit.condition_names_max .. ' names in all')
  end
  for i = 1, #list do
    if list[i] ~= ANY and not is_text(list[i], limit.signal_name_bytes_max) then
      return wrong(s, path, 'names must be 1 to ' .. limit.signal_name_bytes_max
        .. ' printable ASCII characters without blanks at the ends')
    end
    names[i] = list[i]
  end
  return names
end

local function source_type(s, value, path)
  local given = value.values.source_type
  if given == nil then return nil end
  if not is_text(given, limit.category_bytes_max) then
    return wrong(s, path .. '.source_type', 'must be a word')
  end
  if given == 'system' then
    return wrong(s, path .. '.source_type', 'must not be system: nobody can send such a signal')
  end
  return given
end

-- A leaf counts signals: `count` any that fit up to so many, `each` one for each of its names.
local function leaf(s, kind, names, need, distinct, from)
  local one = { kind = kind, names = names, need = need, distinct = distinct, source_type = from }
  s.leaves[#s.leaves + 1] = one
  one.place = #s.leaves
  return one
end

local SIGNALS = { type = true, signals = true, source_type = true, allow_operator_override = true }
local COUNT = { type = true, signals = true, source_type = true, count = true,
  distinct_sources = true, allow_operator_override = true }
local GROUP = { type = true, conditions = true, allow_operator_override = true }
local ONLY = { type = true, allow_operator_override = true }

local function names_of(s, value, path)
  local list = list_of(s, value, path, 'signals')
  return list and read_names(s, list, path .. '.signals')
end

local READERS = {}

function READERS.any(s, value, path)
  if not members(s, value, path, SIGNALS) then return nil end
  local names = names_of(s, value, path)
  return names and leaf(s, 'count', names, 1, false, source_type(s, value, path))
end

function READERS.all(s, value, path)
  if not members(s, value, path, SIGNALS) then return nil end
  local names = names_of(s, value, path)
  return names and leaf(s, 'each', names, #names, false, source_type(s, value, path))
end

function READERS.count(s, value, path)
  if not members(s, value, path, COUNT) then return nil end
  local names = names_of(s, value, path)
  local need = names and whole(s, value, path, 'count', limit.condition_count_max)
  local distinct = flag(s, value, path, 'distinct_sources', false)
  return need and leaf(s, 'count', names, need, distinct, source_type(s, value, path))
end

local read_node

local function group(s, value, path, depth, kind)
  if not members(s, value, path, GROUP) then return nil end
  if depth >= limit.condition_depth_max then
    return wrong(s, path, 'must be nested at most ' .. limit.condition_depth_max .. ' deep')
  end
  local list = list_of(s, value, path, 'conditions')
  if not list then return nil end
  if #list > limit.condition_names_max then
    return wrong(s, path, 'must have at most ' .. limit.condition_names_max .. ' conditions')
  end
  local node = { kind = kind }
  for i = 1, #list do
    node[i] = read_node(s, list[i], path .. '.conditions[' .. i - 1 .. ']', depth + 1)
    if s.wrong then return nil end
  end
  return node
end

function READERS.any_of(s, value, path, depth) return group(s, value, path, depth, 'any_of') end
function READERS.all_of(s, value, path, depth) return group(s, value, path, depth, 'all_of') end

-- Inside another condition it would make that one impossible, or say nothing.
local function only(s, value, path, depth)
  if depth > 1 then return wrong(s, path, 'stands alone') end
  return members(s, value, path, ONLY) and { kind = 'never' }
end

READERS.operator_only, READERS.timeout_only = only, only

read_node = function(s, value, path, depth)
  if type(value) ~= 'table' or value.kind ~= 'object' then
    return wrong(s, path, 'must be an object')
  end
  local reader = READERS[value.values.type]
  if not reader then return wrong(s, path .. '.type', 'unknown type of condition') end
  if depth > 1 and value.values.allow_operator_override ~= nil then
    return wrong(s, path .. '.allow_operator_override', 'belongs to the outermost condition')
  end
  return reader(s, value, path, depth)
end

local FLAT = { condition_type = true, required_signal_names = true, signal_match_mode = true,
  minimum_signal_count = true, timeout_behavior = true, allow_operator_override = true,
  required_waitpoint_id = true, required_waitpoint_key = true }
local MODES = { any = true, all = true, count = true }

local function flat_names(s, value, path)
  local list = list_of(s, value, path, 'required_signal_names')
  if not list then return nil end
  local open, plain = 0, {}
  for i = 1, #list do
    plain[i] = list[i] == '' and ANY or list[i]
    if plain[i] == ANY then open = open + 1 end
  end
  return read_names(s, plain, path .. '.required_signal_names'), open == #list
end

local function flat_leaf(s, value, path)
  local names, wild = flat_names(s, value, path)
  local mode = value.values.signal_match_mode or 'any'
  if names and not MODES[mode] then
    return wrong(s, path .. '.signal_match_mode', 'must be any, all or count')
  end
  if not names then return nil end
  if mode == 'all' then return leaf(s, 'each', names, #names, false, nil) end
  local need = 1
  -- A named signal counts once, so that more of them than there are names can never come.
  if value.values.minimum_signal_count ~= nil then
    need = whole(s, value, path, 'minimum_signal_count',
      wild and limit.condition_count_max or #names)
  end
  return need and leaf(s, wild and 'count' or 'each', names, need, false, nil)
end

local function read_flat(s, value, path)
  if not members(s, value, path, FLAT) then return nil end
  local kind = value.values.condition_type or 'signal_set'
  if kind == 'operator_only' or kind == 'timeout_only' then return { kind = 'never' } end
  if kind ~= 'signal_set' then return wrong(s, path .. '.condition_type', 'unknown type') end
  return flat_leaf(s, value, path)
end

local function read_whole(text)
  local value, malformed = json.read(text)
  if malformed then return nil, malformed end
  if type(value) ~= 'table' or value.kind ~= 'object' then return nil, 'must be an object' end
  local s, path = { leaves = {}, names = 0 }, 'condition'
  local typed = value.values.type ~= nil
  local root = typed and read_node(s, value, path, 1) or not typed and read_flat(s, value, path)
  local kind = typed and value.values.type or value.values.condition_type
  local override = flag(s, value, path, 'allow_operator_override', kind ~= 'timeout_only')
  if s.wrong then return nil, s.wrong end
  return { text = text, root = root, leaves = s.leaves, override = override }
end

-- The same few conditions come again and again.
local KNOWN_MAX = 256
local known, known_count = {}, 0

-- What a text spells; or nil and what is wrong with it.
function condition.read(text)
  local tree, malformed = known[text], nil
  if tree then return tree end
  if #text > limit.condition_bytes_max then
    return nil, 'must be at most ' .. limit.condition_bytes_max .. ' bytes'
  end
  tree, malformed = read_whole(text)
  if not tree then return nil, malformed end
  if known_count == KNOWN_MAX then known, known_count = {}, 0 end
  known[text], known_count = tree, known_count + 1
  return tree
end

local function least(node)
  if node.place then return node.need end
  local fewest
  for i = 1, #node do
    local count = least(node[i])
    if not fewest or (node.kind == 'any_of' and count < fewest)
      or (node.kind == 'all_of' and count > fewest) then
      fewest = count
    end
  end
  return fewest or 0
end

-- With fewer signals than this it cannot be satisfied. One signal may count in several parts.
function condition.least(tree) return least(tree.root) end

-- May an operator end the wait?
function condition.allows_operator(tree) return tree.override end

-- The names it listens to, each once, in order; none if any will do, or none ever will.
function condition.names(tree)
  local names, seen = {}, {}
  for i = 1, #tree.leaves do
    for _, name in ipairs(tree.leaves[i].names) do
      if name == ANY then return {} end
      if not seen[name] then names[#names + 1], seen[name] = name, true end
    end
  end
  return names
end

-- A condition with the signals that have counted so far. What is there of each leaf is a list: of
-- `each` the number of a signal or the empty text for every name; of `count` the numbers, and with
-- distinct sources each with its source behind it.
function condition.open(tree, progress)
  local parts, counted = pack.split(progress or '') or {}, {}
  for i = 1, #tree.leaves do counted[i] = pack.split(parts[i] or '') or {} end
  return { tree = tree, counted = counted }
end

function condition.progress(s)
  local parts = {}
  for i = 1, #s.counted do parts[i] = pack.join(s.counted[i]) end
  return pack.join(parts)
end

local function fits(name, signal) return name == ANY or name == signal.name end

-- The numbers of the signals that a leaf has.
local function numbers(one, list)
  local out = {}
  for i = 1, #list, one.distinct and 2 or 1 do
    if list[i] ~= '' then out[#out + 1] = list[i] end
  end
  return out
end

local function count_each(one, list, signal)
  if #numbers(one, list) >= one.need then return false end
  for i = 1, #one.names do
    if (list[i] or '') == '' and fits(one.names[i], signal) then
      for j = #list + 1, i do list[j] = '' end
      list[i] = signal.number
      return true
    end
  end
  return false
end

local function count_any(one, list, signal)
  local step = one.distinct and 2 or 1
  if #list >= one.need * step then return false end
  for i = 2, one.distinct and #list or 0, 2 do
    if list[i] == signal.source then return false end
  end
  for i = 1, #one.names do
    if fits(one.names[i], signal) then
      list[#list + 1] = signal.number
      if one.distinct then list[#list + 1] = signal.source end
      return true
    end
  end
  return false
end

-- Counts a signal { number, name, source_type, source }; false if it fits nowhere.
function condition.count(s, signal)
  local counted = false
  for i = 1, #s.tree.leaves do
    local one = s.tree.leaves[i]
    if not one.source_type or one.source_type == signal.source_type then
      local add = one.kind == 'each' and count_each or count_any
      if add(one, s.counted[i], signal) then counted = true end
    end
  end
  return counted
end

local function add_all(list, more)
  for i = 1, #more do list[#list + 1] = more[i] end
end

local met

local function met_group(s, node)
  local all = {}
  for i = 1, #node do
    local found = met(s, node[i])
    if found and node.kind == 'any_of' then return found end
    if not found and node.kind == 'all_of' then return nil end
    if found then add_all(all, found) end
  end
  return node.kind == 'all_of' and all or nil
end

-- The numbers of the signals that satisfy a part; nil if it is not satisfied.
met = function(s, node)
  if node.kind == 'never' then return nil end
  if not node.place then return met_group(s, node) end
  local found = numbers(node, s.counted[node.place])
  return #found >= node.need and found or nil
end

local function by_number(a, b) return number.stored(a, 0) < number.stored(b, 0) end

-- The numbers of exactly the signals that satisfy the condition, in their order; nil if it is not
-- satisfied.
function condition.met(s)
  local found, seen, out = met(s, s.tree.root), {}, {}
  if not found then return nil end
  for i = 1, #found do
    if not seen[found[i]] then out[#out + 1], seen[found[i]] = found[i], true end
  end
  table.sort(out, by_number)
  return out
end

return condition
