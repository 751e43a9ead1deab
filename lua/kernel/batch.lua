-- Batches: several items of one kind in one call, each of which gets an answer of its own.

local arg = require('kernel.arg')
local define = require('kernel.define')
local limit = require('kernel.limit')
local reply = require('kernel.reply')
local writes = require('kernel.writes')

local batch = {}

-- How many arguments each item has, as a caller of another version may have fewer or more, and all
-- of them, one item behind the other.
function batch.args(bytes_max, most)
  return {
    arg.int('width', 1, limit.create_width_max),
    arg.rest(arg.bytes('items', bytes_max), 1, limit.create_width_max * most),
  }
end

batch.GIVES = { OK = { 'answers' } }

local function answer_one(p, specs, argv, now, run)
  local a, refusal = define.parse(specs, argv, p, now)
  if not a then return refusal end
  return run(a)
end

-- Gives the answers of `run` to each item, whose arguments are declared by `specs`, at most so
-- many; or nil and a refusal, before anything was run.
function batch.each(p, a, now, specs, most, run)
  local width, count, answers = a.width, #a.items, {}
  if count % width ~= 0 or count > width * most then
    return nil, reply.refuse('invalid_input', string.format(
      'items must come in groups of %d, at most %d of them', width, most))
  end
  local argv = {}
  for from = 1, count, width do
    for i = 1, width do argv[i] = a.items[from + i - 1] end
    answers[#answers + 1] = answer_one(p, specs, argv, now, run)
  end
  return answers
end

-- Runs each item, and writes what it changed before the next one is looked at.
function batch.run(p, a, now, w, specs, most, run)
  local answers, refusal = batch.each(p, a, now, specs, most, function(item)
    local answer = run(p, item, now, w)
    writes.flush(w)
    return answer
  end)
  return answers and reply.ok(answers) or refusal
end

return batch
