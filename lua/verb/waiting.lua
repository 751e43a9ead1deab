-- Waiting: a partition tells a gate that somebody waits for it there, and what an opening came to.

local arg = require('kernel.arg')
local define = require('kernel.define').define
local keys = require('kernel.keys')
local limit = require('kernel.limit')
local prepare = require('kernel.define').prepare
local reply = require('kernel.reply')
local batch = require('model.batch')
local waiting = require('model.waiting')

local SHARED = { keys.QUOTAS, keys.BUDGETS }

-- The name of a gate that lives in partitions of this family.
local function gate_name()
  return arg.custom('gate', function(text, p)
    if #text > limit.gate_bytes_max or #text < 38 or string.sub(text, 1, 2) ~= p.family .. ':' then
      return nil, 'must be a gate of the partition, as in ' .. p.family .. ':<id>'
    end
    return text
  end)
end

-- The score of an execution in its queue.
local function score(name)
  return arg.int(name, -limit.score_max, limit.score_max)
end

local JOIN = prepare { gate_name(), arg.int('partition', 0, 65535), score('best_score') }

define {
  name = 'ff_await_gates',
  doc = 'Partitions wait for gates; tells what was opened for them at once.',
  families = SHARED,
  flags = { 'allow-oom' },
  args = { batch.items(3) },
  gives = { OK = { 'openings' } },
  run = function(p, a, now, w)
    local gates = {}
    local refusal = batch.each(JOIN, a.items, p, now, w, function(j)
      waiting.join(w, p, j.gate, j.partition, j.best_score)
      batch.note(gates, j.gate)
    end)
    return refusal or reply.ok(batch.open_all(w, p, gates, now))
  end,
}

local SETTLE = prepare { gate_name(), arg.text('entry', limit.gate_bytes_max * 2),
  arg.int('opened', 0, limit.gate_open_max), arg.int('left', 0, limit.timestamp_ms_max),
  arg.optional(score('best_score'), 0) }

define {
  name = 'ff_settle_openings',
  doc = 'Notes what became of openings; tells what was opened elsewhere for places left over.',
  families = SHARED,
  flags = { 'allow-oom' },
  args = { batch.items(5) },
  gives = { OK = { 'openings' }, ALREADY_SATISFIED = { 'openings' } },
  run = function(p, a, now, w)
    local gates = {}
    local refusal = batch.each(SETTLE, a.items, p, now, w, function(s)
      if waiting.settle(w, p, s.gate, s.entry, s.opened, s.left, s.best_score, now) then
        batch.note(gates, s.gate)
      end
    end)
    if refusal then return refusal end
    if not gates[1] then return reply.already({}) end
    return reply.ok(batch.open_all(w, p, gates, now))
  end,
}

return true
