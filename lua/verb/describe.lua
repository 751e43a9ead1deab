-- Describe: everything about one execution, read in one call.

local arg = require('kernel.arg')
local blob = require('model.blob')
local define = require('kernel.define').define
local keys = require('kernel.keys')
local limit = require('kernel.limit')
local record = require('model.record')
local reply = require('kernel.reply')
local attempt = require('model.attempt')
local description = require('model.description')
local state = require('model.state')

define {
  name = 'ff_describe_execution',
  doc = 'Reads everything about an execution but its payload and result.',
  flags = { 'no-writes' },
  args = { arg.execution('execution_id') },
  gives = { OK = description.FIELDS, execution_not_found = {} },
  run = function(p, a)
    local x = record.read(p, a.execution_id)
    if not x then return reply.refuse('execution_not_found') end
    return reply.ok(unpack(description.row(p, x)))
  end,
}

define {
  name = 'ff_read_payload',
  doc = 'Reads the input of an execution.',
  flags = { 'no-writes' },
  args = { arg.execution('execution_id') },
  gives = { OK = { 'payload' }, execution_not_found = {}, data_lost = { 'what' } },
  run = function(p, a)
    local x = record.read(p, a.execution_id)
    if not x then return reply.refuse('execution_not_found') end
    local payload = blob.get(x, 'payload')
    return payload and reply.ok(payload) or reply.refuse('data_lost', 'payload')
  end,
}

define {
  name = 'ff_read_result',
  doc = 'Reads the state of an execution and, if it succeeded, its result.',
  flags = { 'no-writes' },
  args = { arg.execution('execution_id') },
  gives = {
    OK = { 'public_state', 'result', 'failure_reason', 'failure_category' },
    execution_not_found = {},
    data_lost = { 'what' },
  },
  run = function(p, a)
    local x = record.read(p, a.execution_id)
    if not x then return reply.refuse('execution_not_found') end
    local result = blob.get(x, 'result')
    if not result then return reply.refuse('data_lost', 'result') end
    return reply.ok(state.public(x), result, x.failure_reason or x.cancel_reason
      or '', x.failure_category or '')
  end,
}

define {
  name = 'ff_list_attempts',
  doc = 'Lists the attempts of an execution, oldest first, each packed in one line.',
  flags = { 'no-writes' },
  args = { arg.execution('execution_id'), arg.int('limit', 1, limit.list_limit_max) },
  gives = { OK = { 'attempts' }, execution_not_found = {} },
  run = function(p, a)
    local x = record.read(p, a.execution_id)
    if not x then return reply.refuse('execution_not_found') end
    local list = redis.call('LRANGE', keys.attempts(x.key), -a.limit, -1)
    if x.attempt_count then list[#list + 1] = attempt.pack(x) end
    if #list > a.limit then table.remove(list, 1) end
    return reply.ok(list)
  end,
}

return true
