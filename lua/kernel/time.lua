-- Time: integer milliseconds of the store's clock, taken once per call.

return function()
  local parts = redis.call('TIME')
  local micros = parts[2] + 0
  return parts[1] * 1000 + (micros - micros % 1000) / 1000
end
