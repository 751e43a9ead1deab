-- Secrets: keys by their ids (kids). One is current and signs; those before it are accepted until
-- their grace is over. A key is stored as `algorithm:accepted until:hex digits`, the time being
-- empty while it is the current one. A partition has the keys of its waitpoint tokens; the first
-- one also has those of approval links, which all servers share: `secret.links(p)` in place of `p`.

local limit = require('kernel.limit')
local number = require('kernel.number')

local secret = {}

local CURRENT, REVISION, KID = 'current', 'revision', 'kid:'

-- The keys of approval links.
function secret.links(p) return { secrets = p.link_secrets, algorithm = 'sha256' } end

local function algorithm_of(p) return p.algorithm or 'sha1' end

-- Takes a stored key apart: hex digits and until when it is accepted; nil if it is damaged.
local function open(p, text)
  local algorithm, expires_at, hex = string.match(text, '^(%w+):(%d*):(%x+)$')
  if algorithm ~= algorithm_of(p) or #hex % 2 ~= 0 then return nil end
  return hex, number.parse(expires_at)
end

local function close(p, hex, expires_at)
  return algorithm_of(p) .. ':' .. (expires_at and number.text(expires_at) or '') .. ':' .. hex
end

-- Kid and hex digits of the key that signs; or nil, nil and a code.
function secret.current(p)
  local kid = redis.call('HGET', p.secrets, CURRENT)
  local text = kid and redis.call('HGET', p.secrets, KID .. kid)
  if not text then return nil, nil, 'hmac_secret_not_initialized' end
  local hex = open(p, text)
  if not hex then return nil, nil, 'invalid_secret' end
  return kid, hex
end

-- Hex digits of the key that a token names, and until when it is accepted; nothing if it is not
-- known; nil, nil and a code if no key can be.
function secret.find(p, kid)
  local found = redis.call('HMGET', p.secrets, CURRENT, KID .. kid)
  if not found[1] then return nil, nil, 'hmac_secret_not_initialized' end
  if not found[2] then return nil end
  local hex, expires_at = open(p, found[2])
  if not hex then return nil, nil, 'invalid_secret' end
  return hex, expires_at
end

-- Everything about the keys of a partition: the current kid, the revision, and the keys by kid.
function secret.read(p)
  local flat, all = redis.call('HGETALL', p.secrets), { keys = {}, count = 0, revision = 0 }
  for i = 1, #flat, 2 do
    local kid = string.match(flat[i], '^kid:(.*)$')
    if kid then
      local hex, expires_at = open(p, flat[i + 1])
      all.keys[kid], all.count = { hex = hex, expires_at = expires_at }, all.count + 1
    elseif flat[i] == CURRENT then
      all.current = flat[i + 1]
    elseif flat[i] == REVISION then
      all.revision = number.stored(flat[i + 1], 0)
    end
  end
  return all
end

-- Is a key accepted no longer? The very millisecond still counts. A damaged one never was.
local function over(key, now)
  return not key.hex or key.expires_at and key.expires_at < now
end

-- Removes the keys that are accepted no longer, but never one that signs; gives how many.
function secret.collect(w, p, all, now)
  local command, count = { 'HDEL', p.secrets }, 0
  for kid, key in pairs(all.keys) do
    if over(key, now) and (kid ~= all.current or not key.hex) then
      command[#command + 1], count = KID .. kid, count + 1
    end
  end
  if count > 0 then w[#w + 1] = command end
  return count
end

-- Makes a key the current one; the one before is accepted until `grace_ms` from now.
function secret.promote(w, p, all, kid, hex, now, grace_ms)
  local command = { 'HSET', p.secrets, CURRENT, kid, KID .. kid, close(p, hex, nil), REVISION,
    all.revision + 1 }
  local before = all.current and all.keys[all.current]
  if before and before.hex and all.current ~= kid then
    command[#command + 1] = KID .. all.current
    command[#command + 1] = close(p, before.hex, math.min(now + grace_ms, limit.timestamp_ms_max))
  end
  w[#w + 1] = command
end

local function kids_of(all, now)
  local kids = {}
  for kid, key in pairs(all.keys) do
    if kid == all.current or not over(key, now) then kids[#kids + 1] = kid end
  end
  table.sort(kids)
  return kids
end

-- The kids that are accepted, sorted, each with until when: the current one without an end.
function secret.accepted(all, now)
  local kids, rows = kids_of(all, now), {}
  for i = 1, #kids do
    rows[2 * i - 1], rows[2 * i] = kids[i], all.keys[kids[i]].expires_at or ''
  end
  return rows
end

-- The same, each with its key.
function secret.opened(all, now)
  local kids, rows = kids_of(all, now), {}
  for i = 1, #kids do rows[2 * i - 1], rows[2 * i] = kids[i], all.keys[kids[i]].hex or '' end
  return rows
end

return secret
