-- Facts: bringing a partition up to date with what the first one has decided.

local arg = require('kernel.arg')
local define = require('kernel.define').define
local fact = require('model.fact')
local limit = require('kernel.limit')
local number = require('kernel.number')
local reply = require('kernel.reply')

local function revision(name) return arg.int(name, 0, number.max) end

-- What is wrong with a list of names and values; nil if nothing is.
local function wrong(list)
  if #list % 2 ~= 0 then return 'facts must be names and values in turn' end
  local bytes = 0
  for i = 1, #list, 2 do
    if #list[i] > limit.fact_name_bytes_max or not string.find(list[i], '^%l+:[ -~]*$') then
      return 'the name of a fact must be a word, a colon and a name'
    end
    bytes = bytes + #list[i] + #list[i + 1]
  end
  if bytes > limit.facts_bytes_max then
    return 'facts must be at most ' .. limit.facts_bytes_max .. ' bytes together'
  end
  return nil
end

-- Facts of the partition that are not among these go away.
local function remove_others(w, p, list)
  local before, kept = fact.all(p), {}
  for i = 1, #list, 2 do kept[list[i]] = true end
  for i = 1, #before, 2 do
    if not kept[before[i]] then fact.put(w, p, before[i], '', before[i + 1]) end
  end
end

local function install(w, p, a)
  if a.whole == 1 then remove_others(w, p, a.facts) end
  for i = 1, #a.facts, 2 do
    local old = fact.stored(p, a.facts[i])
    if old ~= a.facts[i + 1] then fact.put(w, p, a.facts[i], a.facts[i + 1], old) end
  end
  fact.revise(w, p, a.revision)
end

define {
  name = 'ff_install_facts',
  doc = 'Brings the facts of a partition from one revision to another: some of them, or all.',
  flags = { 'allow-oom' },
  args = {
    revision('expected'),
    revision('revision'),
    arg.int('whole', 0, 1),
    arg.rest(arg.text('facts', limit.fact_bytes_max), 0, 2 * limit.facts_max),
  },
  gives = { OK = {}, ALREADY_SATISFIED = {}, facts_differ = { 'revision' } },
  run = function(p, a, _, w)
    local rule = wrong(a.facts)
    if rule then return reply.refuse('invalid_input', rule) end
    local own = fact.revision(p)
    if own == a.revision then return reply.already() end
    if own ~= a.expected then return reply.refuse('facts_differ', number.text(own)) end
    install(w, p, a)
    return reply.ok()
  end,
}

define {
  name = 'ff_confirm_facts',
  doc = 'Notes in the first partition that all others have a revision of the facts.',
  flags = { 'allow-oom' },
  args = { revision('revision') },
  gives = { OK = {}, ALREADY_SATISFIED = {}, facts_differ = { 'revision' } },
  run = function(p, a, _, w)
    local own, installed = fact.revision(p)
    if own ~= a.revision then return reply.refuse('facts_differ', number.text(own)) end
    if installed == own then return reply.already() end
    fact.confirm(w, p, own)
    return reply.ok()
  end,
}

define {
  name = 'ff_read_facts',
  doc = 'Reads the revision of the facts of a partition and, if asked, all of them.',
  flags = { 'no-writes' },
  args = { arg.int('whole', 0, 1) },
  gives = { OK = { 'revision', 'installed', 'facts' } },
  run = function(p, a)
    local own, installed = fact.revision(p)
    return reply.ok(number.text(own), number.text(installed), a.whole == 1 and fact.all(p) or {})
  end,
}

return true
