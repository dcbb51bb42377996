-- KEYS: the record of the reservation, then a counter per hold. ARGV: the request, then the holds.
-- Answers refused, retry after, remaining per hold, reset per hold, exceeded; times in microseconds.

local GIVEN_UP = '-'
local LONGEST = 2 ^ 52

local function microseconds(seconds)
  return math.min(math.max(0, math.ceil(seconds * 1000000)), LONGEST)
end

local function fits(hold, state)
  return hold.amount <= hold.limit and state.counted + hold.amount <= hold.limit
end

local function take(key, hold, state, request, now)
  if hold.strategy == 'gauge' then
    gauge.hold(state, hold, request, now)
    return ''
  end
  local mark = strategies[hold.strategy].claim(state, hold.amount, now)
  strategies[hold.strategy].write(key, hold, state)
  return mark
end

local now = clock()
local request = ARGV[1]
local holds, states = {}, {}
local refused, retry_after, exceeded, longest = -1, 0, {}, 0
local known = redis.call('GET', KEYS[1])

for index = 1, #KEYS - 1 do
  local hold = hold_of(ARGV[index + 1])
  local state = strategies[hold.strategy].read(KEYS[index + 1], hold, now)
  holds[index], states[index] = hold, state
  longest = math.max(longest, hold.window)
  if state.moved then
    strategies[hold.strategy].write(KEYS[index + 1], hold, state)
  end
  if not known and not fits(hold, state) then
    if hold.shadow then
      exceeded[#exceeded + 1] = index - 1
    elseif refused < 0 then
      local too_much = hold.amount > hold.limit
      refused = index - 1
      retry_after = too_much and hold.window or strategies[hold.strategy].wait(state, hold, now)
    end
  end
end

-- A request may take as long as it likes, so its record outlives short windows. It is gone with
-- the settlement; what a crash leaves behind does not stay for a whole month's window.
local kept = math.ceil(math.max(3600, math.min(2 * longest, 86400)) * 1000)
if known == GIVEN_UP then
  redis.call('DEL', KEYS[1])
elseif known then
  for index, hold in ipairs(holds) do
    if hold.strategy == 'gauge' then
      gauge.renew(states[index], hold, request, now)
    end
  end
  redis.call('PEXPIRE', KEYS[1], kept)
elseif refused < 0 and #holds > 0 then
  local marks = {}
  for index, hold in ipairs(holds) do
    marks[index] = take(KEYS[index + 1], hold, states[index], request, now)
  end
  redis.call('SET', KEYS[1], table.concat(marks, ';') .. ';', 'PX', kept)
end

local answer = { refused, microseconds(retry_after) }
for index, hold in ipairs(holds) do
  answer[#answer + 1] = math.max(0, math.floor(hold.limit - states[index].counted))
end
for index, hold in ipairs(holds) do
  answer[#answer + 1] = microseconds(strategies[hold.strategy].reset(states[index], hold, now))
end
if refused < 0 then
  for _, index in ipairs(exceeded) do
    answer[#answer + 1] = index
  end
end
return answer
