-- define: makes a function out of its declaration. It checks the arguments, takes the time, runs
-- the decision, checks that the outcome is a declared one, and only then applies the writes.
--
--   name   the public name; registered with the contract's major version behind it
--   doc    one sentence
--   flags  registration flags of the store
--   families the letters of the partitions it is called on; fp, those of executions, if not said
--   args   the arguments in wire order (kernel/arg.lua)
--   gives  what can come back: status or code -> names of the values, in order
--   run    function(p, a, now, w): p the partition's keys, a arguments by name, w collected writes
--   bare   true if it is called on no partition, takes no arguments and writes nothing: run()

local keys = require('kernel.keys')
local limit = require('kernel.limit')
local reply = require('kernel.reply')
local take_time = require('kernel.time')
local writes = require('kernel.writes')

local define = { functions = {} }

-- The codes that any function may answer, with a text.
local COMMON = { invalid_input = true, payload_too_large = true }

local function refuse_argument(spec, wrong)
  local code = spec.too_large and 'payload_too_large' or 'invalid_input'
  return reply.refuse(code, spec.name .. ' ' .. wrong)
end

local function parse_rest(spec, argv, from, p, now)
  local count, list = math.max(#argv - from + 1, 0), { nil, nil }
  if count < spec.low or count > spec.high then
    return nil, reply.refuse('invalid_input', string.format(
      '%s must be given %d to %d times, not %d', spec.name, spec.low, spec.high, count))
  end
  for i = from, #argv do
    local value, wrong = spec.parse(argv[i], p, now)
    if wrong then return nil, refuse_argument(spec, wrong) end
    list[i - from + 1] = value
  end
  return list
end

-- The arguments by name, or nil and a refusal.
local function parse(specs, argv, p, now)
  -- One table per function serves all its calls: each call assigns every name anew.
  local a, names, known, caps = specs.values, specs.names, specs.known, specs.caps
  local last, given = specs.required, #argv
  if given > last then
    if given > specs.fixed and not specs.open then
      return nil, reply.refuse('invalid_input',
        string.format('arguments must be at most %d, not %d', specs.fixed, given))
    end
    last = specs.open and specs.fixed or given
  end
  -- What is missing is empty.
  for i = given + 1, last do argv[i] = '' end
  -- What is left out at the end is empty; an earlier call may have filled it.
  for i = last + 1, specs.filled do a[names[i]] = known[i][''] end
  specs.filled = last
  for i = 1, last do
    local text = argv[i]
    local value = known[i][text]
    if value == nil then
      if #text <= caps[i] then
        value = text
      else
        local wrong
        value, wrong = specs[i].parse(text, p, now)
        if wrong then return nil, refuse_argument(specs[i], wrong) end
      end
    end
    a[names[i]] = value
  end
  if specs.open then
    local list, refusal = parse_rest(specs.open, argv, specs.fixed + 1, p, now)
    if not list then return nil, refusal end
    a[specs.open.name] = list
  end
  return a
end

-- Prepares the arguments of a function, so that a call finds everything in place.
local function prepare(specs)
  local last = specs[#specs]
  specs.open = last and last.rest and last
  specs.fixed = specs.open and #specs - 1 or #specs
  specs.values, specs.names, specs.known, specs.caps = {}, {}, {}, {}
  specs.filled, specs.required = specs.fixed, 0
  for i = 1, specs.fixed do
    specs.names[i], specs.known[i], specs.caps[i] = specs[i].name, specs[i].known, specs[i].cap
    if specs.open or specs[i].known[''] == nil then specs.required = i end
  end
end

-- A reply that was not declared is a bug of ours: it is raised before anything is written.
local function check_common(spec, word)
  if not COMMON[word] then error(spec.name .. ' gives an undeclared outcome ' .. word) end
end

local function no_partition(families)
  return reply.refuse('invalid_input',
    'the key must be a partition, as in ff:{' .. families[1] .. ':7}')
end

local EXECUTIONS = { keys.EXECUTIONS }

-- The families of a function, as a list and by their letters.
local function families_of(spec)
  local families, known = spec.families or EXECUTIONS, {}
  for i = 1, #families do known[families[i]] = true end
  return families, known
end

-- Before the first call. Valkey's Lua goes over two bytes of its memory for each that a call
-- allocates; with one it still is a sixth of what calls cost. One for every two is enough, and lets
-- a few megabytes wait longer. The embedded store has a collector of its own and offers no other.
local function begin()
  bind()
  local collect = rawget(_G, 'collectgarbage')
  if collect then collect('setstepmul', 50) end
end

local function runner(spec)
  local specs, run, gives, partitions = spec.args, spec.run, spec.gives, keys.known
  local families, serves = families_of(spec)
  return function(key_list, argv)
    if not unpack then begin() end
    local p = partitions[key_list[1]] or keys.partition(key_list[1])
    if not p or not serves[p.family] then return no_partition(families) end
    local now = take_time(p.key)
    local a, refusal = parse(specs, argv, p, now)
    if not a then return refusal end
    -- What the call before has read is not looked at any more.
    writes.forget(p)
    local w = writes.new(p, now)
    local answer = run(p, a, now, w)
    if not gives[answer[2]] then check_common(spec, answer[2]) end
    -- A refusal never writes, whatever was collected on the way to it.
    if answer[1] == 1 then writes.finish(w) end
    return answer
  end
end

-- A function that needs no partition and takes no arguments.
local function bare(spec)
  return function()
    if not unpack then begin() end
    return spec.run()
  end
end

function define.define(spec)
  prepare(spec.args)
  define.functions[#define.functions + 1] = spec
  redis.register_function {
    function_name = spec.name .. '_v' .. limit.contract_major,
    callback = spec.bare and bare(spec) or runner(spec),
    flags = spec.flags,
  }
end

-- Makes a list of arguments ready to be parsed; gives it back.
function define.prepare(specs)
  prepare(specs)
  return specs
end

-- The arguments of one of several items of a call. The table is the same for all of them.
define.parse = parse

-- The same, in a table of their own.
function define.parse_apart(specs, argv, p, now)
  specs.values, specs.filled = {}, specs.fixed
  return parse(specs, argv, p, now)
end

return define
