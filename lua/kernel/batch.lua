-- Batches: several items of one kind in one call. Each is decided and written before the next one
-- is looked at, so that it sees what those before it did, and gets an answer of its own.

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

local function answer_one(p, specs, argv, now, w, run)
  local a, refusal = define.parse(specs, argv, p, now)
  if not a then return refusal end
  local answer = run(p, a, now, w)
  writes.flush(w)
  return answer
end

-- Runs each item, whose arguments are declared by `specs`; at most so many.
function batch.run(p, a, now, w, specs, most, run)
  local width, count, answers = a.width, #a.items, {}
  if count % width ~= 0 or count > width * most then
    return reply.refuse('invalid_input', string.format(
      'items must come in groups of %d, at most %d of them', width, most))
  end
  for from = 1, count, width do
    local argv = {}
    for i = 1, width do argv[i] = a.items[from + i - 1] end
    answers[#answers + 1] = answer_one(p, specs, argv, now, w, run)
  end
  return reply.ok(answers)
end

return batch
