-- Kinds: the defaults of their executions, which are facts (model/fact.lua). Those of the kind
-- without a name are the deployment's.

local json = require('kernel.json')
local number = require('kernel.number')
local fact = require('model.fact')
local policy = require('model.policy')

local kind = {}

local NAME = 'kind:'

-- The name of the fact about a kind.
function kind.fact(name) return NAME .. name end

-- A policy that says nothing, as a text.
kind.EMPTY = '{}'

local NONE = { policy = kind.EMPTY, said = policy.NONE }

-- The policy stands at the end, so that its text can be told apart.
local function read_policy(text)
  local _, at = string.find(text, '"policy":', 1, true)
  return at and string.sub(text, at + 1, -2) or kind.EMPTY
end

-- What a text tells of a kind; what is damaged says nothing.
local read = fact.reader(function(text)
  local value = json.read(text)
  local values = type(value) == 'table' and value.kind == 'object' and value.values
  local said = values and policy.say(values.policy)
  if not said then return NONE end
  return { policy = read_policy(text), said = said, pinned = values.pinned == true,
    told_by = values.told_by, started_at = values.started_at }
end)

-- What is known of a kind, which is not to be changed.
function kind.defaults(p, name)
  local text = fact.get(p, NAME, name)
  return text and read(text) or NONE
end

-- What the policies of a kind and of the deployment say.
function kind.said(p, name)
  if not fact.any(p) then return policy.NONE, policy.NONE end
  return kind.defaults(p, name).said, kind.defaults(p, '').said
end

-- Defaults as a text; empty if there is nothing to tell.
function kind.text(defaults)
  if defaults.policy == kind.EMPTY and not defaults.pinned and not defaults.told_by then
    return ''
  end
  local parts = {}
  if defaults.pinned then parts[#parts + 1] = '"pinned":true' end
  if defaults.told_by then
    parts[#parts + 1] = '"told_by":' .. json.quoted(defaults.told_by)
    parts[#parts + 1] = '"started_at":' .. number.text(defaults.started_at)
  end
  parts[#parts + 1] = '"policy":' .. defaults.policy
  return '{' .. table.concat(parts, ',') .. '}'
end

return kind
