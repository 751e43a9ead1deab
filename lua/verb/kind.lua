-- Kinds: the defaults of their executions are decided in the first partition, and installed in the
-- others as facts.

local arg = require('kernel.arg')
local define = require('kernel.define').define
local limit = require('kernel.limit')
local reply = require('kernel.reply')
local claim = require('model.claim')
local fact = require('model.fact')
local kind = require('model.kind')
local policy = require('model.policy')

local function gives(already)
  return { OK = fact.GIVES.OK, ALREADY_SATISFIED = already, facts_limit_exceeded = {},
    invalid_policy_json = { 'text' }, invalid_capabilities = { 'text' } }
end

-- Why a policy cannot be anybody's default.
local function wrong(text)
  local said, code, detail = policy.read(text)
  return not said and reply.refuse(code, detail) or nil
end

-- Why what a worker tells of a kind changes nothing: it is known, somebody pinned something else,
-- or a worker that started later has told something else.
local function kept(before, text, started_at)
  if before.policy == text then return 'equal' end
  if before.pinned then return 'pinned' end
  return (before.started_at or 0) > started_at and 'newer' or nil
end

local _, worker_instance_id = claim.worker_args()

define {
  name = 'ff_register_kind',
  doc = 'A worker tells the defaults of a kind that it serves.',
  flags = { 'allow-oom' },
  args = {
    arg.label('kind', limit.kind_bytes_max),
    arg.text('policy_json', limit.policy_bytes_max),
    worker_instance_id,
    arg.int('started_ms_ago', 0, limit.timestamp_ms_max),
  },
  gives = gives { 'revision', 'installed', 'value', 'why' },
  run = function(p, a, now, w)
    local refusal = wrong(a.policy_json)
    if refusal then return refusal end
    local before = kind.defaults(p, a.kind)
    local text = a.policy_json == '' and kind.EMPTY or a.policy_json
    local started_at = math.max(now - a.started_ms_ago, 0)
    local why = kept(before, text, started_at)
    if why then
      local revision, installed = fact.revision(p)
      return reply.already(revision, installed, fact.stored(p, kind.fact(a.kind)), why)
    end
    return fact.change(w, p, now, kind.fact(a.kind), kind.text {
      policy = text, told_by = a.worker_instance_id, started_at = started_at })
  end,
}

-- A policy that an operator gives is pinned unless that is said otherwise.
local function set(before, a)
  local given = a.policy_json ~= ''
  local to = { policy = given and a.policy_json or before.policy, pinned = before.pinned }
  if not given then to.told_by, to.started_at = before.told_by, before.started_at end
  if given then to.pinned = true end
  if a.pinning ~= 'keep' then to.pinned = a.pinning == 'pin' end
  return to
end

define {
  name = 'ff_set_kind',
  doc = 'Sets the defaults of a kind, or those of the deployment, or pins or frees them.',
  flags = { 'allow-oom' },
  args = {
    arg.optional(arg.label('kind', limit.kind_bytes_max), ''),
    arg.text('policy_json', limit.policy_bytes_max),
    arg.choice('pinning', { 'keep', 'pin', 'free' }),
  },
  gives = gives(fact.GIVES.ALREADY_SATISFIED),
  run = function(p, a, now, w)
    local refusal = wrong(a.policy_json)
    if refusal then return refusal end
    local to = set(kind.defaults(p, a.kind), a)
    return fact.change(w, p, now, kind.fact(a.kind), kind.text(to))
  end,
}

return true
