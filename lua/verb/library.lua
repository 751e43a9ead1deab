-- The library about itself: which version it is, and the contract of every function.

local define = require('kernel.define')
local about = require('kernel.about')

define.define {
  name = 'ff_version',
  doc = 'Tells the version and the content hash of the installed library.',
  flags = { 'no-writes' },
  args = {},
  gives = { OK = { 'version', 'hash' } },
  bare = true,
  run = function() return { 1, 'OK', '' .. about.version, about.hash } end,
}

local function describe_outcomes(gives)
  local rows = {}
  for code, names in pairs(gives) do
    rows[#rows + 1] = code .. '(' .. table.concat(names, ',') .. (names.open and ',…' or '') .. ')'
  end
  table.sort(rows)
  return rows
end

local function describe_args(specs)
  local names = {}
  for i = 1, #specs do names[i] = specs[i].name .. (specs[i].rest and '…' or '') end
  return names
end

define.define {
  name = 'ff_describe_library',
  doc = 'Lists every function with its flags, arguments and outcomes.',
  flags = { 'no-writes' },
  args = {},
  gives = { OK = { open = true } },
  run = function()
    local out = { 1, 'OK' }
    for _, spec in ipairs(define.functions) do
      out[#out + 1] = { spec.name, spec.doc, table.concat(spec.flags, ','),
        describe_args(spec.args), describe_outcomes(spec.gives) }
    end
    return out
  end,
}

return true
