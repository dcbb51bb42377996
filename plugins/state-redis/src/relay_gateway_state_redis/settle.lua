-- KEYS: the record of the reservation, then a counter per hold. ARGV: the request, the holds, then
-- what was used of each.

local GIVEN_UP = '-'
local GIVEN_UP_FOR = 10000

local function correct(key, hold, used, mark, now)
  local strategy = strategies[hold.strategy]
  local state = strategy.read(key, hold, now)
  local back = hold.amount - used
  -- The rule changed meanwhile: what its new counter holds is not this claim's.
  if back == 0 or state.foreign then
    return
  end
  if back < 0 then
    strategy.add(state, -back)
  elseif not strategy.give_back(state, back, mark) then
    return
  end
  strategy.write(key, hold, state)
end

local now = clock()
local count = #KEYS - 1
local record = redis.call('GET', KEYS[1])
local marks = {}
if record and record ~= GIVEN_UP then
  redis.call('DEL', KEYS[1])
  for mark in string.gmatch(record, '([^;]*);') do
    marks[#marks + 1] = mark
  end
elseif not record and count > 0 then
  -- The reservation may still be on its way, over another connection of a server that hung.
  redis.call('SET', KEYS[1], GIVEN_UP, 'PX', GIVEN_UP_FOR)
end

for index = 1, count do
  local hold = hold_of(ARGV[index + 1])
  if hold.strategy == 'gauge' then
    let_go(KEYS[index + 1], member_of(hold, ARGV[1]))
  elseif marks[index] then
    correct(KEYS[index + 1], hold, tonumber(ARGV[1 + count + index]), marks[index], now)
  end
end
return 'OK'
