-- Builds the world in which the library runs: what Valkey offers to a library, and no more. Takes
-- the functions that reach the keyspace, the log and the processor's digests; answers the library's
-- globals, the list of registered functions, and a function that ends loading.

local command, protected_command, log, sha1hex = ...

local error, next, pairs, pcall, rawset = error, next, pairs, pcall, rawset
local setmetatable, tostring, type = setmetatable, tostring, type

local sealed = setmetatable({}, {__mode = 'k'})

local function refuse_change()
  error('Attempt to modify a readonly table', 2)
end

local function refuse_unknown(_, name)
  error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
end

-- A view that cannot be written through.
local function seal(contents)
  local view = {}
  sealed[view] = true
  local meta = {__index = contents, __newindex = refuse_change, __metatable = false}
  return setmetatable(view, meta), meta
end

local function only(source, names)
  local chosen = {}
  for name in names:gmatch('%S+') do
    chosen[name] = source[name]
  end
  return (seal(chosen))
end

local function copy(source, target)
  for name, value in pairs(source) do
    target[name] = value
  end
  return target
end

-- Registering -------------------------------------------------------------------------------------

local registered = {}
local known = {}
local flags_allowed = {
  ['no-writes'] = true,
  ['allow-oom'] = true,
  ['allow-stale'] = true,
  ['no-cluster'] = true,
  ['allow-cross-slot-keys'] = true,
}

local function read_flags(flags)
  local read_only, allowed_when_full = false, false
  for _, flag in pairs(flags or {}) do
    if not flags_allowed[flag] then
      error('unknown flag given', 3)
    end
    read_only = read_only or flag == 'no-writes'
    allowed_when_full = allowed_when_full or flag == 'allow-oom'
  end
  return read_only, allowed_when_full
end

local function register_function(first, second)
  local spec = first
  if type(first) ~= 'table' then
    spec = {function_name = first, callback = second}
  end
  local name, callback = spec.function_name, spec.callback
  if type(name) ~= 'string' or not name:find('^[%w_]+$') then
    error('Library names can only contain letters, numbers, or underscores(_) and must be at ' ..
      'least one character long', 2)
  end
  if type(callback) ~= 'function' then
    error('callback argument given to server.register_function must be a function', 2)
  end
  if known[name] then
    error('Function already exists in the library', 2)
  end
  known[name] = true
  registered[#registered + 1] = {name, callback, read_flags(spec.flags)}
end

-- What a library finds ----------------------------------------------------------------------------

local shared = {log = log, LOG_DEBUG = 0, LOG_VERBOSE = 1, LOG_NOTICE = 2, LOG_WARNING = 3}

local function error_reply(...)
  local text, more = ...
  if type(text) ~= 'string' or more ~= nil then
    return {err = 'ERR wrong number or type of arguments'}
  end
  text = text:gsub('^%-', ''):gsub('[\r\n]+$', '')
  if not text:find(' ', 1, true) then
    text = 'ERR ' .. text
  end
  return {err = text}
end

local function status_reply(...)
  local text, more = ...
  if type(text) ~= 'string' or more ~= nil then
    return {err = 'ERR wrong number or type of arguments'}
  end
  return {ok = text}
end

-- As Valkey's: an error that a command raised is answered as its text.
local function settle(ok, value, ...)
  if not ok and type(value) == 'table' and type(value.err) == 'string' then
    return false, value.err
  end
  return ok, value, ...
end

local function guarded_pcall(...)
  return settle(pcall(...))
end

local function guarded_rawset(target, key, value)
  if sealed[target] then
    refuse_change()
  end
  return rawset(target, key, value)
end

local while_loading = {}
local api = copy(shared, {register_function = register_function})
while_loading.redis = seal(setmetatable(api, {__index = refuse_unknown}))
while_loading.server = while_loading.redis

local while_running = {
  assert = assert, error = error, getmetatable = getmetatable, ipairs = ipairs, next = next,
  pairs = pairs, pcall = guarded_pcall, rawequal = rawequal, rawget = rawget,
  rawset = guarded_rawset, select = select, setmetatable = setmetatable, tonumber = tonumber,
  tostring = tostring, type = type, unpack = unpack, xpcall = xpcall, _VERSION = 'Lua 5.1',
  string = only(string, 'byte char find format gmatch gsub len lower match rep reverse sub upper'),
  table = only(table, 'concat foreach foreachi getn insert maxn remove sort'),
  -- Without random: what a function does must follow from its arguments, the keys and the time.
  math = only(math, 'abs acos asin atan atan2 ceil cos cosh deg exp floor fmod frexp huge ldexp ' ..
    'log log10 max min modf pi pow rad sin sinh sqrt tan tanh'),
  bit = only(bit, 'arshift band bnot bor bswap bxor lshift rol ror rshift tobit tohex'),
}
while_running.redis = seal(copy(shared, {
  call = command, pcall = protected_command, error_reply = error_reply,
  status_reply = status_reply, sha1hex = sha1hex,
  -- There are no users here: everything is allowed.
  acl_check_cmd = function() return true end,
}))
while_running.server = while_running.redis

setmetatable(while_loading, {__index = refuse_unknown})
setmetatable(while_running, {__index = refuse_unknown})

-- Methods of strings are found here, past the view above.
string.dump = nil
getmetatable('').__metatable = false

local globals, meta = seal(while_loading)

local function end_loading()
  while_running._G = globals
  meta.__index = while_running
end

return globals, registered, end_loading
