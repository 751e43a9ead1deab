-- Waitpoint tokens: who has one may signal its waitpoint, and no other. A token is
-- `<kid>:<40 lower-case hex digits>`, the digits being HMAC-SHA1 (RFC 2104) under the secret of
-- that kid over 256 bytes: the packed parts (kernel/pack.lua)
--
--   version `1`, execution id, index of the attempt, waitpoint id, waitpoint key, creation time
--
-- and zero bytes behind them. Tokens are derived when they are needed and stored nowhere.

local pack = require('kernel.pack')
local secret = require('model.secret')

local token = {}

local VERSION = '1'
-- Room for the longest parts; one length for all, so that the work tells nothing about a waitpoint.
local MESSAGE_BYTES = 256
local BLOCK_BYTES, INNER, OUTER = 64, 54, 92

-- Byte by two hex digits. Made on first use: nothing that makes one exists while the library loads.
local bytes_of

local function unhex(hex)
  if not bytes_of then
    bytes_of = {}
    for i = 0, 255 do bytes_of[string.format('%02x', i)] = string.char(i) end
  end
  return (string.gsub(string.lower(hex), '%x%x', bytes_of))
end

local function pad(key, constant)
  local bytes = {}
  for i = 1, BLOCK_BYTES do bytes[i] = string.char(bit.bxor(string.byte(key, i) or 0, constant)) end
  return table.concat(bytes)
end

-- The two blocks that a secret is mixed into are the same for all messages.
local PADS_MAX = 1024
local pads, pad_count = {}, 0

local function pads_of(hex)
  local known = pads[hex]
  if known then return known end
  local key = unhex(hex)
  if #key > BLOCK_BYTES then key = unhex(redis.sha1hex(key)) end
  if pad_count == PADS_MAX then pads, pad_count = {}, 0 end
  known = { pad(key, INNER), pad(key, OUTER) }
  pads[hex], pad_count = known, pad_count + 1
  return known
end

-- HMAC-SHA1 of a message under a key in hex digits, as hex digits.
function token.hmac(hex, message)
  local blocks = pads_of(hex)
  return redis.sha1hex(blocks[2] .. unhex(redis.sha1hex(blocks[1] .. message)))
end

local function message(execution_id, waitpoint)
  local text = pack.join { VERSION, execution_id, waitpoint.attempt, waitpoint.id, waitpoint.key,
    waitpoint.created_at }
  return text .. string.rep('\0', MESSAGE_BYTES - #text)
end

-- The token of a waitpoint under the current secret; or nil and the code of what is wrong with it.
function token.mint(p, waitpoint)
  local kid, hex, code = secret.current(p)
  if code then return nil, code end
  return kid .. ':' .. token.hmac(hex, message(p.tag .. waitpoint.execution, waitpoint))
end

-- In place of a waitpoint or a secret that is not there.
local NOBODY = { execution = '', attempt = '0', id = '', key = '', created_at = '0' }
local NOTHING = '00'

-- Why a token does not open a waitpoint of this execution; nil if it does. An unknown waitpoint, an
-- unknown kid and a wrong digit are told by the same word after the same work; and digests are
-- compared by their own digests, so that the time says nothing about where they begin to differ.
function token.refusal(p, uuid, waitpoint, given, now)
  if given == '' then return 'missing_token' end
  local kid, digest = string.match(given, '^([^:]+):(%x+)$')
  local hex, expires_at, code = secret.find(p, kid or '')
  if code then return code end
  local right = token.hmac(hex or NOTHING, message(p.tag .. uuid, waitpoint or NOBODY))
  local same = redis.sha1hex(right) == redis.sha1hex(digest or '')
  if not same or not hex or not waitpoint or waitpoint.execution ~= uuid then
    return 'invalid_token'
  end
  if expires_at and expires_at < now then return 'token_expired' end
  return nil
end

return token
