-- Replies: {1, status, value…} when done, {0, code, detail…} when refused. Values are texts, whole
-- numbers or arrays of them; what is not there is the empty text, never a hole.

local reply = {}

function reply.ok(...) return { 1, 'OK', ... } end
function reply.duplicate(...) return { 1, 'DUPLICATE', ... } end
function reply.already(...) return { 1, 'ALREADY_SATISFIED', ... } end
-- There is nothing of what was asked for.
function reply.empty(...) return { 1, 'EMPTY', ... } end
function reply.refuse(code, ...) return { 0, code, ... } end

-- The status or the code of a reply.
function reply.word(answer) return answer[2] end

-- The values that go by these names, in their order, without holes.
function reply.row(names, values)
  for i = 1, #names do values[i] = values[i] or '' end
  return values
end

return reply
