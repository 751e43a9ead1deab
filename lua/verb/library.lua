-- The library about itself: which version it is, what it needs, and the contract of every function.

local define = require('kernel.define')
local about = require('kernel.about')
local keys = require('kernel.keys')

define.define {
  name = 'ff_version',
  doc = 'Tells the version and the content hash of the installed library.',
  flags = { 'no-writes' },
  args = {},
  gives = { OK = { 'version', 'hash' } },
  bare = true,
  run = function() return { 1, 'OK', '' .. about.version, about.hash } end,
}

local LISTEN = 'SSUBSCRIBE'

-- One command of each kind that the library calls, as it would call it: what the user of a
-- connection may not do is then known before half of a call is done.
local function needed()
  local p = keys.first()
  local record, list = p.execution .. 'id', keys.attempts(p.execution .. 'id')
  return {
    { 'TIME' }, { 'EXISTS', record }, { 'GET', record }, { 'SET', record, '' }, { 'DEL', record },
    { 'UNLINK', record }, { 'STRLEN', record },
    { 'HGET', record, 'f' }, { 'HMGET', record, 'f' }, { 'HGETALL', record },
    { 'HSET', record, 'f', '' }, { 'HDEL', record, 'f' }, { 'HLEN', record },
    { 'HEXISTS', record, 'f' },
    { 'ZADD', p.all, '1', 'm' }, { 'ZREM', p.all, 'm' }, { 'ZRANGE', p.all, '0', '1' },
    { 'ZSCORE', p.all, 'm' }, { 'ZCARD', p.all }, { 'ZRANK', p.all, 'm' },
    { 'ZCOUNT', p.all, '0', '1' },
    { 'ZREVRANK', p.all, 'm' },
    { 'XADD', p.log, '*', 'e', '' }, { 'XTRIM', p.log, 'MAXLEN', '1' },
    { 'XRANGE', p.log, '-', '+' },
    { 'XREVRANGE', p.log, '+', '-' },
    { 'RPUSH', list, '' }, { 'LRANGE', list, '0', '1' }, { 'LTRIM', list, '0', '1' },
    { 'LINDEX', list, '0' }, { 'LSET', list, '0', '' },
    { 'SADD', p.lanes, 'm' }, { 'SREM', p.lanes, 'm' },
    { 'SISMEMBER', p.lanes, 'm' }, { 'SMEMBERS', p.lanes }, { 'SCARD', p.lanes },
    { 'SPUBLISH', p.ready_channel, '' }, { 'SPUBLISH', p.ended_channel, '' },
    { 'SPUBLISH', p.due_channel, '' }, { 'SPUBLISH', p.frames_channel .. 'id', '' },
    { 'SPUBLISH', p.flow_channel .. 'id', '' },
    -- Not called here, but by those who listen.
    { LISTEN, p.ready_channel }, { LISTEN, p.ended_channel }, { LISTEN, p.due_channel },
    { LISTEN, p.frames_channel .. 'id' }, { LISTEN, p.flow_channel .. 'id' },
  }
end

define.define {
  name = 'ff_check_rights',
  doc = 'Lists the commands of the library that the user of the connection may not run.',
  flags = { 'no-writes' },
  args = {},
  gives = { OK = { 'missing' } },
  bare = true,
  run = function()
    local missing = {}
    for _, command in ipairs(needed()) do
      if not redis.acl_check_cmd(unpack(command)) then
        missing[#missing + 1] = command[2] and command[1] .. ' ' .. command[2] or command[1]
      end
    end
    return { 1, 'OK', missing }
  end,
}

local function describe_outcomes(gives)
  local rows = {}
  for code, names in pairs(gives) do
    rows[#rows + 1] = code .. '(' .. table.concat(names, ',') .. (names.open and ',…' or '') .. ')'
  end
  table.sort(rows)
  return rows
end

local function describe_args(specs)
  local names = {}
  for i = 1, #specs do names[i] = specs[i].name .. (specs[i].rest and '…' or '') end
  return names
end

define.define {
  name = 'ff_describe_library',
  doc = 'Lists every function with its flags, arguments and outcomes.',
  flags = { 'no-writes' },
  args = {},
  gives = { OK = { open = true } },
  run = function()
    local out = { 1, 'OK' }
    for _, spec in ipairs(define.functions) do
      out[#out + 1] = { spec.name, spec.doc, table.concat(spec.flags, ','),
        describe_args(spec.args), describe_outcomes(spec.gives) }
    end
    return out
  end,
}

return true
