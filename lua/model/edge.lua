-- Edges: who waits for whom in a flow. Both ends list an edge, the upstream what it frees and the
-- downstream what it waits for; whether an edge is satisfied follows from how its upstream ended,
-- and how many of its edges were told of that.
--
--   outgoing  downstream:kind:pass:applied:id of the caller:name of the input
--   incoming  upstream:place among its outgoing ones:kind:pass:name of the input
--
-- A downstream counts its edges in one text, `needed:edges:satisfied:impossible`; all are needed if
-- nothing else is said. It is freed as soon as enough are satisfied, and skipped as soon as not
-- enough can be.
--
-- An edge that a caller named is found by that id and by its two ends, both in one hash of the
-- flow: `upstream:place`.

local attempt = require('model.attempt')
local keys = require('kernel.keys')
local limit = require('kernel.limit')
local number = require('kernel.number')
local blob = require('model.blob')
local commit = require('model.commit')
local flow = require('model.flow')
local record = require('model.record')
local runnable = require('model.runnable')
local state = require('model.state')
local writes = require('kernel.writes')

local edge = {}

-- What stands in `due` for an execution whose end not all of its edges were told.
edge.PREFIX = 'e:'

-- What stands there for a member whose other upstreams are still to be cancelled.
edge.REST_PREFIX = 'r:'

edge.KINDS = { 'success_only', 'failure_only', 'any_outcome' }

local LETTERS = { success_only = 's', failure_only = 'f', any_outcome = 'a' }
local WORDS = { s = 'success_only', f = 'failure_only', a = 'any_outcome' }

local FAILURES = { failed = true, expired = true, cancelled = true }

-- Does an upstream that ended like this satisfy an edge of this kind?
local function satisfies(letter, outcome)
  if letter == 'a' then return true end
  if letter == 'f' then return FAILURES[outcome] or false end
  return outcome == 'success'
end

local UUID_BYTES = 36

-- A count of edges; what somebody made unreadable counts as the nearest that it can mean.
local function count_of(text) return math.max(math.floor(number.stored(text, 0)), 0) end

local function parse_outgoing(text)
  local down, kind, pass, applied, id, name =
    string.match(text, '^([^:]*):(%l):(%d):(%d):([^:]*):(.*)$')
  if not down or #down ~= UUID_BYTES then return nil end
  return { down = down, kind = kind, pass = pass == '1', applied = applied == '1', id = id,
    name = name }
end

local function pack_outgoing(one)
  return one.down .. ':' .. one.kind .. (one.pass and ':1:' or ':0:')
    .. (one.applied and '1:' or '0:') .. one.id .. ':' .. one.name
end

local function parse_incoming(text)
  local up, place, kind, pass, name = string.match(text, '^([^:]*):(%d+):(%l):(%d):(.*)$')
  if not up or #up ~= UUID_BYTES then return nil end
  return { up = up, place = tonumber(place), kind = kind, pass = pass == '1', name = name }
end

-- An edge that nobody named is named by where it stands: the ordinal of its upstream, and its place
-- there.
local function made_id(ordinal, place)
  return string.format('%08x-0000-8000-8000-%012x', ordinal, place)
end

function edge.id(up, one, place)
  if one.id ~= '' then return one.id end
  return made_id(number.stored(up.ordinal, 0), place)
end

-- The uuid of the upstream and the place there that an id speaks of; nil if it is none.
local function place_of(f, id)
  local place = redis.call('HGET', keys.edge_ids(f.key), id)
  if place then
    local up, at = string.match(place, '^([^:]*):(%d+)$')
    return up, tonumber(at)
  end
  local ordinal, at = string.match(id, '^(%x+)%-0000%-8000%-8000%-(%x+)$')
  if not ordinal then return nil end
  local from = tonumber(ordinal, 16)
  local found = redis.call('ZRANGE', keys.members(f.key), from, from, 'BYSCORE')
  return found[1], tonumber(at, 16)
end

-- The edge at a place of an upstream; nil if there is none.
function edge.read(up, place)
  local text = redis.call('LINDEX', keys.outgoing(up.key), place)
  return text and parse_outgoing(text) or nil
end

-- The edge of this id: its upstream, itself and its place there; nil if there is none.
function edge.find(p, f, id)
  local uuid, place = place_of(f, id)
  local up = uuid and record.read(p, uuid)
  local one = up and edge.read(up, place)
  if one and edge.id(up, one, place) == id then return up, one, place end
  return nil
end

local function ends(up, down) return up.uuid .. ':' .. down.uuid end

-- The edge between two members that a caller added, and its place; nil if there is none.
function edge.between(f, up, down)
  local place = redis.call('HGET', keys.edge_ids(f.key), ends(up, down))
  local at = place and tonumber(string.match(place, ':(%d+)$'))
  if not at then return nil end
  return edge.read(up, at), at
end

-- Is an id of a caller taken?
function edge.is_taken(f, id) return redis.call('HEXISTS', keys.edge_ids(f.key), id) == 1 end

-- How an edge stands: pending, satisfied or impossible.
function edge.state(up, one, place)
  if not up or not state.ENDED[up.state] or count_of(up.edges_resolved) <= place then
    return 'pending'
  end
  return satisfies(one.kind, up.state) and 'satisfied' or 'impossible'
end

function edge.kind(one) return WORDS[one.kind] or WORDS.s end

local function put_counts(x, needed, edges, satisfied, impossible)
  record.set(x, 'dependencies', needed .. ':' .. number.text(edges) .. ':'
    .. number.text(satisfied) .. ':' .. number.text(impossible))
end

-- What such texts say: the same few are read again and again, and reading one is dear.
local KNOWN_MAX = 256
local known, known_count = {}, 0

local function parse_counts(text)
  local needed, edges, satisfied, impossible =
    string.match(text, '^(%d*):(%d+):(%d+):(%d+)$')
  if known_count == KNOWN_MAX then known, known_count = {}, 0 end
  known_count = known_count + 1
  local one = { needed or '', tonumber(edges) or 0, tonumber(satisfied) or 0,
    tonumber(impossible) or 0 }
  known[text] = one
  return one
end

local function counts(x)
  local text = x.dependencies or ''
  local one = known[text] or parse_counts(text)
  return one[1], one[2], one[3], one[4]
end

-- Says how many edges a member waits for, and how many of them must be satisfied: a number, or all.
function edge.expect(x, needed, count)
  put_counts(x, needed and number.text(needed) or '', count, 0, 0)
end

-- May a member run as far as its upstreams go (free), can it never (skip), or must it wait? An
-- empty text in place of how many it needs stands for all.
local function verdict(needed, edges, satisfied, impossible)
  local least = tonumber(needed) or edges
  if satisfied >= least then return 'free' end
  return edges - impossible < least and 'skip' or 'wait'
end

local function decide(x)
  if not x.dependencies then return 'free' end
  return verdict(counts(x))
end

-- What an upstream put out is an input of a downstream that was not freed yet.
local function pass(w, x, up, one)
  if not one.pass then return end
  record.set(x, 'inputs', number.one_more(x.inputs))
  w[#w + 1] = { 'RPUSH', keys.inputs(x.key), up.uuid .. ':' .. one.name }
end

-- The time that a member has counts from when it may run, up to the deadline it was given.
local function arm_deadline(x, now)
  local own = number.stored(x.deadline_ms, nil)
  if not own then return end
  local given = number.stored(x.deadline_at, nil)
  if given then record.set(x, 'deadline_given', given) end
  record.set(x, 'deadline_at', given and math.min(given, now + own) or now + own)
end

edge.arm_deadline = arm_deadline

local put_freed = record.setter { 'state', 'transition_at' }

-- It has to wait again, and its time with it.
function edge.disarm_deadline(x)
  if not x.deadline_ms or not x.deadline_at then return end
  local given = x.deadline_given
  record.drop(x, { 'deadline_at', 'deadline_given' })
  x.timed = true
  record.set(x, 'deadline_at', given)
end

local UNDECIDED = { blocked = true, held = true }

-- Is it still open whether a member will run?
local function is_open(x)
  return UNDECIDED[x.state] and not runnable.has_begun(x) and decide(x) == 'wait'
end

-- What decides about a member that waits for upstreams, and where it is listed when it is freed.
local read_downstream = record.reader { 'flow_id', 'dependencies', 'lane', 'created_at', 'priority',
  'ageing_ms', 'delay_until', 'deadline_at', 'deadline_ms', 'held', 'attempt_count', 'waits_again',
  'inputs', 'cancel_rest', 'kept', 'namespace', 'kind', 'capabilities', 'park_reason' }

-- How many more edges this call may follow.
function edge.left(w) return w.edges_left or limit.edges_per_call end

-- So many were followed, or looked at.
function edge.spend(w, count) w.edges_left = edge.left(w) - count end

-- Does somebody wait for an upstream for whom it is still open whether it will run? Of one with
-- more edges than one call may follow that is taken for granted.
local function is_needed(w, up, edges)
  if edges > limit.edges_per_call then return true end
  local list = edge.outgoing(up, 0, edges)
  for i = 1, #list do
    local down = list[i] and list[i].applied and read_downstream(w.p, list[i].down)
    if down and is_open(down) then return true end
  end
  return false
end

-- A member that nobody needs any more does not decide about its flow.
local function cancel_unneeded(w, up, now, finish)
  record.set(up, 'optional', '1')
  record.set(up, 'cancel_reason', 'not_needed')
  record.set(up, 'cancelled_by', 'flow_cascade')
  finish(w, up, now, 'cancelled', 'not_needed')
end

local function cancel_rest_later(w, x, from)
  record.set(x, 'rest_from', number.text(from))
  commit(w, x)
  w[#w + 1] = { 'ZADD', w.p.due, w.now, edge.REST_PREFIX .. x.uuid }
  writes.due(w, w.now)
end

-- Cancels upstreams of a member that was freed, if nobody needs them any more, from one of its
-- edges on; what this call may not look at is looked at by the next tick.
function edge.cancel_rest(w, x, from, now, finish)
  if edge.left(w) <= 0 then return cancel_rest_later(w, x, from) end
  local _, total = runnable.dependencies(x)
  local list = edge.incoming(x, from, edge.left(w))
  for i = 1, #list do
    local up = list[i] and record.read(w.p, list[i].up)
    local edges = up and state.LIVE[up.state] and count_of(up.edges_out) or 0
    local cost = edges > limit.edges_per_call and 1 or math.max(edges, 1)
    if edge.left(w) < cost then return cancel_rest_later(w, x, from + i - 1) end
    edge.spend(w, cost)
    if edges > 0 and not is_needed(w, up, edges) then cancel_unneeded(w, up, now, finish) end
  end
  if #list > 0 and from + #list < (total or 0) then
    return cancel_rest_later(w, x, from + #list)
  end
  if x.rest_from then
    record.drop(x, { 'rest_from' })
    commit(w, x)
  end
end

-- What a change of its counts means for a member; `finish` ends one that can never run.
local function apply(w, x, now, finish, decision)
  if x.state ~= 'blocked' or runnable.has_begun(x) then return commit(w, x) end
  decision = decision or decide(x)
  if decision == 'free' then
    arm_deadline(x, now)
    put_freed(x, runnable.free_state(x, now), now)
    commit(w, x, 'freed')
    if x.cancel_rest then edge.cancel_rest(w, x, 0, now, finish) end
  elseif decision == 'skip' then
    -- Whoever ends an execution looks at all of it.
    record.read(w.p, x.uuid)
    record.set(x, 'failure_reason', 'dependency_impossible')
    finish(w, x, now, 'skipped', 'dependency_impossible')
  else
    commit(w, x)
  end
end

-- What a failure frees, and what follows that, makes up for it: it is not ended with the others.
local function keep(w, x)
  local f = flow.read(w.p, x.flow_id)
  if f and f.on_failure and not x.kept then record.set(x, 'kept', '1') end
end

-- Tells a downstream how its upstream ended.
local function settle(w, x, up, one, now, finish)
  local needed, edges, satisfied, impossible = counts(x)
  -- Also for one that was ended meanwhile: it may be replayed.
  local open = not runnable.has_begun(x)
    and verdict(needed, edges, satisfied, impossible) == 'wait'
  if satisfies(one.kind, up.state) then
    satisfied = satisfied + 1
    if open and up.state == 'success' then pass(w, x, up, one) end
    if open and (up.kept or FAILURES[up.state]) then keep(w, x) end
  else
    impossible = impossible + 1
  end
  put_counts(x, needed, edges, satisfied, impossible)
  apply(w, x, now, finish, verdict(needed, edges, satisfied, impossible))
end

local function continue_later(w, x)
  w[#w + 1] = { 'ZADD', w.p.due, w.now, edge.PREFIX .. x.uuid }
  writes.due(w, w.now)
end

-- Tells the edges of an execution that is over, as many as this call may follow. Gives false if
-- some are left.
function edge.tell(w, x, now, finish)
  local from, total = count_of(x.edges_resolved), count_of(x.edges_out)
  local most = math.max(math.min(edge.left(w), total - from), 0)
  if most > 0 then
    edge.spend(w, most)
    local list = redis.call('LRANGE', keys.outgoing(x.key), from, from + most - 1)
    -- Edges that come in this very call are not listed yet: the next tick tells them.
    if x.unlisted then most = #list end
    record.set(x, 'edges_resolved', from + most)
    for i = 1, #list do
      local one = parse_outgoing(list[i])
      local down = one and one.applied and read_downstream(w.p, one.down)
      if down and state.known(down.state) then settle(w, down, x, one, now, finish) end
    end
    commit(w, x)
  end
  return from + most >= total
end

-- The same, and what is left is continued by the next tick.
function edge.tell_on(w, x, now, finish)
  if edge.tell(w, x, now, finish) then
    w[#w + 1] = { 'ZREM', w.p.due, edge.PREFIX .. x.uuid }
    return true
  end
  continue_later(w, x)
  return false
end

local function after(w, x, now, finish)
  if not x.whole then x = record.read(w.p, x.uuid) end
  local f = flow.read(w.p, x.flow_id)
  if not f then return end
  if x.edges_out and not flow.frees_nobody(f) and not edge.tell(w, x, now, finish) then
    continue_later(w, x)
  end
  if f.on_failure == 'fail_fast' and not x.optional and FAILURES[x.state] then
    flow.fail(w, f, x)
  end
end

-- A member is over: whoever waits for it is told, and so on for those whom that ends, without
-- going deeper with each.
function edge.ended(w, x, now, finish)
  local list = w.ended
  if list then
    list[#list + 1] = x
    return
  end
  list = { x }
  w.ended = list
  local i = 1
  while list[i] do
    after(w, list[i], now, finish)
    i = i + 1
  end
  w.ended = nil
end

-- Is the upstream over, and does nobody else tell this edge of it? One that is new stands behind
-- those that were told, or that will be.
local function told(w, up, place)
  local resolved = count_of(up.edges_resolved)
  if not state.ENDED[up.state] or resolved < place then return false end
  if resolved == place then
    record.set(up, 'edges_resolved', place + 1)
    commit(w, up)
  end
  return true
end

local function list_incoming(w, up, down, one, place)
  writes.extend(w, 'RPUSH', keys.incoming(down.key), up.uuid .. ':' .. number.text(place) .. ':'
    .. one.kind .. (one.pass and ':1:' or ':0:') .. one.name)
end

-- Adds an edge to both of its ends. The downstream waits for it from now on; if the upstream is
-- over already, it is told at once.
function edge.add(w, f, up, down, one, now, finish)
  local place = count_of(up.edges_out)
  record.set(up, 'edges_out', place + 1)
  up.unlisted = true
  writes.extend(w, 'RPUSH', keys.outgoing(up.key), pack_outgoing(one))
  if one.id ~= '' then
    local at = up.uuid .. ':' .. number.text(place)
    w[#w + 1] = { 'HSET', keys.edge_ids(f.key), one.id, at, ends(up, down), at }
  end
  flow.grow(w, f, 0, 1, now)
  commit(w, up)
  if one.applied then
    edge.bind(w, up, down, one, place, now, finish)
    return
  end
  told(w, up, place)
  -- That somebody comes before it is known from now on, whether it waits or not.
  if not down.dependencies then
    edge.expect(down, nil, 0)
    commit(w, down)
  end
end

-- Adds an edge whose downstream expects it already. That an upstream is over, it is told by this if
-- `finish` is given.
function edge.link(w, f, up, down, one, now, finish)
  local place = count_of(up.edges_out)
  record.set(up, 'edges_out', place + 1)
  up.unlisted = true
  writes.extend(w, 'RPUSH', keys.outgoing(up.key), pack_outgoing(one))
  list_incoming(w, up, down, one, place)
  flow.grow(w, f, 0, 1, now)
  commit(w, up)
  if finish and told(w, up, place) then settle(w, down, up, one, now, finish) end
end

-- Whoever waits for another is reserved for nobody, and its time does not pass.
function edge.block(x, now)
  record.drop(x, attempt.GRANT)
  edge.disarm_deadline(x)
  record.set(x, 'state', 'blocked')
  record.set(x, 'transition_at', now)
end

-- The downstream waits for an edge from now on.
function edge.bind(w, up, down, one, place, now, finish)
  local needed, edges, satisfied, impossible = counts(down)
  list_incoming(w, up, down, one, place)
  put_counts(down, needed, edges + 1, satisfied, impossible)
  local is_told = told(w, up, place)
  local blocks = runnable.WAITING[down.state] and (is_told or decide(down) == 'wait')
  if blocks then edge.block(down, now) end
  if is_told then
    settle(w, down, up, one, now, finish)
  else
    commit(w, down, blocks and 'blocked')
  end
end

-- An edge of a member that was staged earlier counts from now on.
function edge.apply(w, up, down, one, place, now, finish)
  one.applied = true
  w[#w + 1] = { 'LSET', keys.outgoing(up.key), place, pack_outgoing(one) }
  edge.bind(w, up, down, one, place, now, finish)
end

-- Looks anew at a blocked member whose upstreams may all be over: it is freed, skipped or waits.
edge.reconsider = apply

function edge.new(down, kind, pass_data, name, id, applied)
  return { down = down, kind = LETTERS[kind], pass = pass_data, name = name, id = id,
    applied = applied }
end

-- Would an edge of this kind pass what its upstream never gives?
function edge.passes_nothing(kind, passes) return passes and kind == 'failure_only' end

-- The upstream of the last edge that ends at a member; nil if there is none.
function edge.last_upstream(x)
  local text = redis.call('LINDEX', keys.incoming(x.key), -1)
  local one = text and parse_incoming(text)
  return one and one.up
end

-- The outgoing edges of a member, from a place on; false for what cannot be read.
function edge.outgoing(x, from, most)
  local list = redis.call('LRANGE', keys.outgoing(x.key), from, from + most - 1)
  for i = 1, #list do list[i] = parse_outgoing(list[i]) or false end
  return list
end

-- The incoming edges of a member, from a place on; false for what cannot be read.
function edge.incoming(x, from, most)
  local list = redis.call('LRANGE', keys.incoming(x.key), from, from + most - 1)
  for i = 1, #list do list[i] = parse_incoming(list[i]) or false end
  return list
end

-- Takes back what a downstream was told.
function edge.untell(x, one, outcome)
  local needed, edges, satisfied, impossible = counts(x)
  if satisfies(one.kind, outcome) then
    put_counts(x, needed, edges, math.max(satisfied - 1, 0), impossible)
  else
    put_counts(x, needed, edges, satisfied, math.max(impossible - 1, 0))
  end
end

-- The first upstream whose end does not satisfy what a member waits for; nil if there is none among
-- those that are looked at.
function edge.obstacle(p, x)
  local list = edge.incoming(x, 0, limit.edges_per_call)
  for i = 1, #list do
    local up = list[i] and record.read(p, list[i].up)
    local ended = up and state.ENDED[up.state]
    if ended and not satisfies(list[i].kind, up.state) then return up.uuid end
  end
  return nil
end

edge.decide = decide

return edge
