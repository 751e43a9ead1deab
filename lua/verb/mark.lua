-- Marks: each server leaves a growing number in every shard of the store. One that finds less than
-- it has seen acknowledged there knows that the store has lost what was written since.

local arg = require('kernel.arg')
local define = require('kernel.define').define
local limit = require('kernel.limit')
local number = require('kernel.number')
local reply = require('kernel.reply')

-- mark:marked_at
local function read(text)
  local mark, at = string.match(text or '', '^(%d+):(%d+)$')
  return tonumber(mark or 0), tonumber(at or 0)
end

-- Servers that have been gone for long leave room for others.
local function forget_old(w, p, now)
  if redis.call('HLEN', p.marks) < limit.marks_max then return end
  local all = redis.call('HGETALL', p.marks)
  for i = 1, #all, 2 do
    local _, at = read(all[i + 1])
    if at + limit.mark_kept_ms < now then w[#w + 1] = { 'HDEL', p.marks, all[i] } end
  end
end

define {
  name = 'ff_mark_shard',
  doc = 'Leaves a mark of a server and tells which one was found; a mark never gets smaller.',
  flags = { 'allow-oom' },
  args = { arg.uuid('server'), arg.int('mark', 1, number.max) },
  gives = { OK = { 'found', 'found_at', 'now' } },
  run = function(p, a, now, w)
    local text = redis.call('HGET', p.marks, a.server)
    local found, found_at = read(text)
    if not text then forget_old(w, p, now) end
    if a.mark > found then
      w[#w + 1] = { 'HSET', p.marks, a.server, number.text(a.mark) .. ':' .. number.text(now) }
    end
    return reply.ok(number.text(found), number.text(found_at), number.text(now))
  end,
}

return true
