-- Create: a new execution, or several.

local batch = require('kernel.batch')
local creation = require('model.creation')
local kernel = require('kernel.define')
local limit = require('kernel.limit')

kernel.define {
  name = 'ff_create_execution',
  doc = 'Creates an execution.',
  flags = {},
  args = creation.ARGS,
  gives = creation.GIVES,
  run = creation.create,
}

kernel.define {
  name = 'ff_create_executions',
  doc = 'Creates several executions of one partition; each gets an answer of its own.',
  flags = {},
  args = batch.args(limit.payload_bytes_max, limit.create_batch_max),
  gives = batch.GIVES,
  run = function(p, a, now, w)
    return batch.run(p, a, now, w, creation.ARGS, limit.create_batch_max, creation.create)
  end,
}

return true
