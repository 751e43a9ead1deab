-- Facts: what every partition knows, such as settings of lanes and defaults of kinds. Each
-- partition has the same small hash, name -> JSON text, with the revision of the whole. The first
-- partition decides: every change there gives the whole a new revision. The others are then brought
-- from one revision to the next, or given the whole (verb/fact.lua). A change that comes late, or
-- twice, finds another revision than the one it follows and has no effect.

local limit = require('kernel.limit')
local number = require('kernel.number')
local reply = require('kernel.reply')

local fact = {}

-- The revision of the whole, and, in the first partition, the one that all others were seen at. No
-- fact has such a name: theirs have a colon.
local REVISION, INSTALLED = 'revision', 'installed'

-- What a change of facts can answer.
fact.GIVES = {
  OK = { 'revision', 'before', 'name', 'value' },
  ALREADY_SATISFIED = { 'revision', 'installed', 'value' },
  facts_limit_exceeded = {},
}

-- What was read at the latest revision, by name; false if there are no facts. The revision is asked
-- for once per call: as long as it is the same, so are the facts.
local function latest(p)
  local revision = redis.call('HGET', p.facts, REVISION)
  if not revision then
    p.facts_read = false
    return false
  end
  if revision ~= p.facts_revision then
    p.facts_revision, p.facts_known, p.facts_count = revision, {}, 0
  end
  p.facts_read = p.facts_known
  return p.facts_known
end

-- How many facts of a partition are remembered, those that are not there among them.
local KNOWN_MAX = 256

local function look(p, known, name)
  local value = redis.call('HGET', p.facts, name)
  if p.facts_count < KNOWN_MAX then
    known[name], p.facts_count = value, p.facts_count + 1
  end
  return value
end

-- Are there any facts? Where there are none, who wants to know several need not ask for each.
function fact.any(p)
  local known = p.facts_read
  if known == nil then known = latest(p) end
  return known ~= false
end

-- One fact, by the word that its name begins with and the rest of it; false if there is none.
function fact.get(p, word, rest)
  local known = p.facts_read
  if known == nil then known = latest(p) end
  if not known then return false end
  local name = word .. rest
  local value = known[name]
  if value == nil then return look(p, known, name) end
  return value
end

-- One fact by its whole name, as it is stored; the empty text if there is none.
function fact.stored(p, name) return redis.call('HGET', p.facts, name) or '' end

-- The revision of the whole, and the one that all partitions were seen at.
function fact.revision(p)
  local found = redis.call('HMGET', p.facts, REVISION, INSTALLED)
  return number.stored(found[1], 0), number.stored(found[2], 0)
end

-- All facts: a list of names and values, in the order of names.
function fact.all(p)
  local flat, names, values, list = redis.call('HGETALL', p.facts), {}, {}, {}
  for i = 1, #flat, 2 do
    if string.find(flat[i], ':', 1, true) then
      names[#names + 1], values[flat[i]] = flat[i], flat[i + 1]
    end
  end
  table.sort(names)
  for i = 1, #names do list[2 * i - 1], list[2 * i] = names[i], values[names[i]] end
  return list
end

-- Is there room for this value of a fact, in place of the one that it had?
local function has_room(p, name, value)
  local list, count, bytes = fact.all(p), 1, #name + #value
  for i = 1, #list, 2 do
    if list[i] ~= name then count, bytes = count + 1, bytes + #list[i] + #list[i + 1] end
  end
  return #value <= limit.fact_bytes_max and count <= limit.facts_max
    and bytes <= limit.facts_bytes_max
end

-- What follows when a fact changes, by the word before the colon: function(w, p, name, old, new).
fact.on = {}

-- Collects the writes that give a fact its value; the empty text removes it.
function fact.put(w, p, name, value, old)
  w[#w + 1] = value == '' and { 'HDEL', p.facts, name } or { 'HSET', p.facts, name, value }
  local follow = fact.on[string.match(name, '^(%l+):')]
  if follow then follow(w, p, string.match(name, ':(.*)$'), old, value) end
end

function fact.revise(w, p, revision)
  w[#w + 1] = { 'HSET', p.facts, REVISION, number.text(revision) }
end

function fact.confirm(w, p, revision)
  w[#w + 1] = { 'HSET', p.facts, INSTALLED, number.text(revision) }
end

-- Changes a fact in the first partition; gives the answer. A revision is a time, so that none comes
-- twice, even if the store forgets the latest ones.
function fact.change(w, p, now, name, value)
  local old = fact.stored(p, name)
  local before, installed = fact.revision(p)
  if old == value then return reply.already(before, installed, value) end
  if value ~= '' and not has_room(p, name, value) then
    return reply.refuse('facts_limit_exceeded')
  end
  local revision = math.max(now, before + 1)
  fact.put(w, p, name, value, old)
  fact.revise(w, p, revision)
  return reply.ok(number.text(revision), number.text(before), name, value)
end

-- A function that reads texts which are the same again and again: what was read once need not be
-- read again.
function fact.reader(read)
  local known, count = {}, 0
  return function(text)
    local value = known[text]
    if value then return value end
    value = read(text)
    if count == 256 then known, count = {}, 0 end
    known[text], count = value, count + 1
    return value
  end
end

return fact
