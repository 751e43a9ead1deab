-- Batches: several items of one kind in one call, each a group of arguments, and what follows for
-- the gates behind which they changed something.

local arg = require('kernel.arg')
local limit = require('kernel.limit')
local parse = require('kernel.define').parse
local reply = require('kernel.reply')
local writes = require('kernel.writes')
local outbox = require('model.outbox')
local waiting = require('model.waiting')

local batch = {}

-- The argument that has the items, each of so many texts.
function batch.items(width)
  return arg.rest(arg.text('items', limit.gate_bytes_max * 2), 1, width * limit.releases_max)
end

local function groups(list, width)
  local out = {}
  for from = 1, #list, width do
    local group = {}
    for i = 1, width do group[i] = list[from + i - 1] end
    out[#out + 1] = group
  end
  return out
end

-- Calls `visit` with the arguments of every item, in their order; what one changes is written
-- before the next one is looked at. Gives a refusal, before anything is done, if one is malformed.
function batch.each(specs, items, p, now, w, visit)
  local width = specs.fixed
  if #items % width ~= 0 then
    return reply.refuse('invalid_input', string.format('items must come in groups of %d', width))
  end
  local list = groups(items, width)
  for i = 1, #list do
    local a, refusal = parse(specs, list[i], p, now)
    if not a then return refusal end
  end
  for i = 1, #list do
    visit(parse(specs, list[i], p, now))
    writes.flush(w)
  end
  return nil
end

-- Notes a gate behind which something changed, once.
function batch.note(gates, name)
  for i = 1, #gates do if gates[i] == name then return end end
  gates[#gates + 1] = name
end

-- Opens these gates for as many as may pass; gives all openings, which the caller carries out.
function batch.open_all(w, p, gates, now)
  local openings = {}
  for i = 1, #gates do
    local entries = waiting.attend(w, p, gates[i], now, outbox.hand_out)
    for j = 1, #entries do openings[#openings + 1] = entries[j] end
  end
  return openings
end

return batch
