-- Replies: {1, status, value…} when done, {0, code, detail…} when refused. Values are strings,
-- or arrays of strings; numbers are written as plain digits, nothing is the empty string.

local number = require('kernel.number')

local reply = {}

local function render(value)
  local kind = type(value)
  if kind == 'string' or kind == 'table' then return value end
  if kind == 'number' then return number.text(value) end
  if value == nil or value == false then return '' end
  return '1'
end

local function build(first, status, count, ...)
  local out = { first, status }
  for i = 1, count do out[i + 2] = render((select(i, ...))) end
  return out
end

function reply.ok(...) return build(1, 'OK', select('#', ...), ...) end
function reply.duplicate(...) return build(1, 'DUPLICATE', select('#', ...), ...) end
function reply.already(...) return build(1, 'ALREADY_SATISFIED', select('#', ...), ...) end
function reply.refuse(code, ...) return build(0, code, select('#', ...), ...) end

-- Renders the elements of an inner array in place.
function reply.row(values, count)
  for i = 1, count do values[i] = render(values[i]) end
  return values
end

return reply
