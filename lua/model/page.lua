-- Pages: walking a sorted set from the last entry that was looked at, although entries come and go
-- meanwhile.

local arg = require('kernel.arg')
local limit = require('kernel.limit')
local number = require('kernel.number')
local reply = require('kernel.reply')

local page = {}

-- Entries by their places, each with its score behind it.
function page.stretch(key, reverse, from, to)
  if reverse then return redis.call('ZRANGE', key, from, to, 'REV', 'WITHSCORES') end
  return redis.call('ZRANGE', key, from, to, 'WITHSCORES')
end

local function entry_at(key, reverse, at)
  local found = page.stretch(key, reverse, at, at)
  return found[1], tonumber(found[2])
end

local function rank_of(key, reverse, member)
  if reverse then return redis.call('ZREVRANK', key, member) end
  return redis.call('ZRANK', key, member)
end

-- Does an entry come behind the one that a cursor names?
local function behind(cursor, reverse, member, score)
  if score ~= cursor.score then return (score < cursor.score) == reverse end
  if member == cursor.member then return false end
  return (member < cursor.member) == reverse
end

-- The position of the first entry behind a cursor: next to the one it names, or, if that is gone,
-- found by halving.
function page.position(key, reverse, cursor)
  if not cursor.score then return 0 end
  local rank = rank_of(key, reverse, cursor.member)
  if rank then
    local _, score = entry_at(key, reverse, rank)
    if score == cursor.score then return rank + 1 end
  end
  local low, high = 0, redis.call('ZCARD', key)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if behind(cursor, reverse, entry_at(key, reverse, middle)) then
      high = middle
    else
      low = middle + 1
    end
  end
  return low
end

-- `score|uuid` of the last entry of the page before, as an argument; empty for the first page.
function page.cursor()
  return arg.custom('cursor', function(text)
    if text == '' then return {} end
    local score, member = string.match(text, '^(%d+)|([%x-]+)$')
    if not score or #score > 15 or #member ~= 36 then
      return nil, 'must be empty or the cursor of an earlier answer'
    end
    return { score = tonumber(score), member = member }
  end)
end

-- The arguments of a function that answers such a page.
function page.args() return { page.cursor(), arg.int('limit', 1, limit.list_limit_max) } end

-- A page, lowest score first: what `row` makes of each uuid, nothing of some, and the cursor of the
-- next page; the empty text if there is none.
function page.rows(p, key, a, row)
  local most, rows = a.limit, {}
  local from = page.position(key, false, a.cursor)
  local found = page.stretch(key, false, from, from + most - 1)
  for i = 1, #found, 2 do rows[#rows + 1] = row(p, found[i]) end
  local last = #found
  if last < 2 * most then return reply.ok(rows, '') end
  return reply.ok(rows, number.text(tonumber(found[last])) .. '|' .. found[last - 1])
end

return page
