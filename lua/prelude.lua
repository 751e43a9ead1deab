-- Prelude: what the modules share without asking for it.

-- What the library needs of Lua itself. None of it exists while the library loads, and looking up
-- a global costs as much as a call, so the first call binds it once for all.
local function builtins()
  return { call = redis.call, pcall = redis.pcall, acl_check_cmd = redis.acl_check_cmd,
      sha1hex = redis.sha1hex }, error, ipairs, pairs, tonumber, type, unpack,
    { byte = string.byte, char = string.char, find = string.find, format = string.format,
      gmatch = string.gmatch, gsub = string.gsub, lower = string.lower, match = string.match,
      rep = string.rep, sub = string.sub },
    { concat = table.concat, remove = table.remove, sort = table.sort },
    { abs = math.abs, floor = math.floor, max = math.max, min = math.min }, { bxor = bit.bxor }
end

local redis = redis
local error, ipairs, pairs, tonumber, type, unpack, string, table, math, bit

local function bind()
  redis, error, ipairs, pairs, tonumber, type, unpack, string, table, math, bit = builtins()
end

-- Modules are functions that run on first `require`; a flat concatenation would run into Lua's
-- limit of 200 locals per chunk.
local modules, loaded = {}, {}

local function require(name)
  if loaded[name] == nil then loaded[name] = modules[name]() end
  return loaded[name]
end
