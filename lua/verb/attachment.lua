-- Attachments: budgets are made to apply to what is created in a scope from now on, or cease to.

local arg = require('kernel.arg')
local define = require('kernel.define').define
local limit = require('kernel.limit')
local reply = require('kernel.reply')
local attachment = require('model.attachment')
local fact = require('model.fact')

define {
  name = 'ff_note_budget',
  doc = 'Makes known to all partitions that a budget applies to a namespace, a lane or a kind.',
  flags = { 'allow-oom' },
  args = {
    arg.choice('scope_type', { 'namespace', 'lane', 'kind' }),
    arg.label('scope_id', limit.budget_scope_bytes_max),
    arg.uuid('budget_id'),
    arg.int('attached', 0, 1),
  },
  gives = fact.GIVES,
  run = function(p, a, now, w)
    local name = attachment.FACT .. a.scope_type .. ':' .. a.scope_id
    local before = attachment.unquoted(fact.stored(p, name))
    local after = attachment.changed(before, a.budget_id, a.attached == 1)
    if not after then return reply.refuse('facts_limit_exceeded') end
    return fact.change(w, p, now, name, attachment.quoted(after))
  end,
}

define {
  name = 'ff_attach_budget',
  doc = 'Makes a budget apply to members of a flow, or to one execution, that are yet to be made.',
  flags = { 'allow-oom' },
  args = {
    arg.choice('scope_type', { 'flow', 'execution' }),
    arg.uuid('scope_id'),
    arg.uuid('budget_id'),
    arg.int('attached', 0, 1),
  },
  gives = { OK = {}, ALREADY_SATISFIED = {}, facts_limit_exceeded = {} },
  run = function(p, a, _, w)
    local name = a.scope_type .. ':' .. a.scope_id
    local before = redis.call('HGET', p.attached, name) or ''
    local after = attachment.changed(before, a.budget_id, a.attached == 1)
    if not after then return reply.refuse('facts_limit_exceeded') end
    if after == before then return reply.already() end
    w[#w + 1] = after == '' and { 'HDEL', p.attached, name } or { 'HSET', p.attached, name, after }
    return reply.ok()
  end,
}

return true
