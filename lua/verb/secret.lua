-- Secrets: the keys that waitpoint tokens are signed with, in each partition, and those of approval
-- links, in the first.

local arg = require('kernel.arg')
local define = require('kernel.define').define
local limit = require('kernel.limit')
local number = require('kernel.number')
local reply = require('kernel.reply')
local secret = require('model.secret')

local function is_kid(text)
  return #text >= 1 and #text <= limit.kid_bytes_max and not string.find(text, '[^!-~]')
    and not string.find(text, ':', 1, true)
end

local function is_secret(text)
  return #text % 2 == 0 and #text >= 2 * limit.secret_bytes_min
    and #text <= 2 * limit.secret_bytes_max and not string.find(text, '%X')
end

local function wrong(a, grace_ms)
  if not is_kid(a.new_kid) then return reply.refuse('invalid_kid') end
  if not is_secret(a.new_secret_hex) then return reply.refuse('invalid_secret_hex') end
  if not grace_ms or grace_ms < 0 then return reply.refuse('invalid_grace_ms') end
  return nil
end

local function rotate(w, p, all, a, now, grace_ms)
  local gone = secret.collect(w, p, all, now)
  local more = all.keys[a.new_kid] and 0 or 1
  if all.count - gone + more > limit.kids_max then
    return reply.refuse('kid_limit_exceeded')
  end
  secret.promote(w, p, all, a.new_kid, string.lower(a.new_secret_hex), now, grace_ms)
  return reply.ok(all.current or '', a.new_kid, gone)
end

-- `keys` says where the keys are, `before` answers for what needs no rotation or allows none.
local function rotation(of)
  define {
    name = of.name,
    doc = of.doc,
    flags = { 'allow-oom' },
    args = {
      arg.text('new_kid', limit.token_bytes_max),
      arg.text('new_secret_hex', limit.reason_bytes_max),
      arg.text('grace_ms', limit.category_bytes_max),
      arg.optional(arg.int('only_first', 0, 1), 0),
    },
    gives = {
      OK = { 'previous_kid', 'current_kid', 'collected' }, ALREADY_SATISFIED = { 'current_kid' },
      invalid_kid = {}, invalid_secret_hex = {}, invalid_grace_ms = {},
      rotation_conflict = { 'kid' }, kid_limit_exceeded = {},
    },
    run = function(p, a, now, w)
      local grace_ms = number.parse(a.grace_ms)
      local refusal = wrong(a, grace_ms)
      if refusal then return refusal end
      local keys = of.keys(p)
      local all = secret.read(keys)
      local signing = all.current and all.keys[all.current]
      local signs = signing and signing.hex
      if signs and a.only_first == 1 then return reply.already(all.current) end
      return of.before(all, a, signs) or rotate(w, keys, all, a, now, grace_ms)
    end,
  }
end

-- A kid stands for one secret, for ever: the same again is a repetition, or makes an earlier one
-- current again; another one is refused.
rotation {
  name = 'ff_rotate_waitpoint_hmac_secret',
  doc = 'Makes a key the one that signs tokens; the one before is accepted for a grace period.',
  keys = function(p) return p end,
  before = function(all, a)
    local known = all.keys[a.new_kid]
    if not known or not known.hex then return nil end
    if known.hex ~= string.lower(a.new_secret_hex) then
      return reply.refuse('rotation_conflict', a.new_kid)
    end
    return a.new_kid == all.current and reply.already(a.new_kid) or nil
  end,
}

define {
  name = 'ff_list_waitpoint_hmac_kids',
  doc = 'Lists the key ids that tokens are accepted under, each with until when.',
  flags = { 'no-writes' },
  args = {},
  gives = { OK = { 'current_kid', 'revision', 'kids' } },
  run = function(p, _, now)
    local all = secret.read(p)
    return reply.ok(all.current or '', all.revision, secret.accepted(all, now))
  end,
}

-- Whoever asks brings a fresh secret each time, so a repetition is known by its kid alone.
rotation {
  name = 'ff_rotate_link_secret',
  doc = 'Makes a key the one that signs approval links; the one before is accepted for a while.',
  keys = secret.links,
  before = function(all, a, signs)
    if signs and a.new_kid == all.current then return reply.already(all.current) end
    return all.keys[a.new_kid] and reply.refuse('rotation_conflict', a.new_kid) or nil
  end,
}

define {
  name = 'ff_read_link_secrets',
  doc = 'Reads the keys that approval links are accepted under, for the servers that check them.',
  flags = { 'no-writes' },
  args = {},
  gives = { OK = { 'now', 'current_kid', 'keys' } },
  run = function(p, _, now)
    local all = secret.read(secret.links(p))
    return reply.ok(number.text(now), all.current or '', secret.opened(all, now))
  end,
}

return true
