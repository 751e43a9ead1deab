-- Time: integer milliseconds of the store's clock, taken once per call.

return function()
  local parts = redis.call('TIME')
  return parts[1] * 1000 + math.floor(parts[2] / 1000)
end
