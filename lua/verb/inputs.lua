-- Inputs: what upstreams of a flow pass to a member, read with a budget of bytes: a claim brings
-- only so much of it.

local arg = require('kernel.arg')
local define = require('kernel.define').define
local limit = require('kernel.limit')
local number = require('kernel.number')
local record = require('model.record')
local reply = require('kernel.reply')
local input = require('model.input')

local read = record.reader { 'inputs' }

define {
  name = 'ff_read_inputs',
  doc = 'Reads what upstreams pass to an execution, from a place on, so many bytes at a time.',
  flags = { 'no-writes' },
  args = {
    arg.execution('execution_id'),
    arg.int('from', 0, limit.flow_edges_max),
    arg.int('bytes_max', 1, limit.inputs_read_bytes_max),
  },
  gives = { OK = { 'input_count', 'inputs', 'next_from' }, execution_not_found = {} },
  run = function(p, a)
    local x = read(p, a.execution_id)
    if not x then return reply.refuse('execution_not_found') end
    local list, on = input.page(p, x, a.from, limit.claim_inputs_max, a.bytes_max)
    return reply.ok(number.stored(x.inputs, 0), list, on or '')
  end,
}

return true
