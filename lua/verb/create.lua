-- Create: a new execution, or several.

local arg = require('kernel.arg')
local creation = require('model.creation')
local kernel = require('kernel.define')
local limit = require('kernel.limit')
local reply = require('kernel.reply')
local writes = require('kernel.writes')

kernel.define {
  name = 'ff_create_execution',
  doc = 'Creates an execution.',
  flags = {},
  args = creation.ARGS_ALONE,
  gives = creation.GIVES,
  run = creation.create,
}

-- One item of a batch: decided and written before the next one is looked at, so that two items
-- with one idempotency key see each other.
local function create_item(p, argv, now, w)
  local a, refusal = kernel.parse(creation.ARGS_ALONE, argv, p, now)
  if not a then return refusal end
  local answer = creation.create(p, a, now, w)
  writes.flush(w)
  return answer
end

kernel.define {
  name = 'ff_create_executions',
  doc = 'Creates several executions of one partition; each gets an answer of its own.',
  flags = {},
  args = {
    -- How many arguments each has: a caller of another version may have fewer or more.
    arg.int('width', 1, limit.create_width_max),
    arg.rest(arg.bytes('items', limit.payload_bytes_max), 1,
      limit.create_width_max * limit.create_batch_max),
  },
  gives = { OK = { 'answers' } },
  run = function(p, a, now, w)
    local width, count, answers = a.width, #a.items, {}
    if count % width ~= 0 or count > width * limit.create_batch_max then
      return reply.refuse('invalid_input', string.format(
        'items must come in groups of %d, at most %d of them', width, limit.create_batch_max))
    end
    for from = 1, count, width do
      local argv = {}
      for i = 1, width do argv[i] = a.items[from + i - 1] end
      answers[#answers + 1] = create_item(p, argv, now, w)
    end
    return reply.ok(answers)
  end,
}

return true
