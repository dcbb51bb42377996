-- What both scripts share: the strategies, as docs/explanation/limits.md has them.
-- A counter is a text that begins with its strategy, a gauge is a sorted set. State that comes from
-- the future, because the server's clock was set back, is taken as being of this moment, and kept as
-- such, or it would be of the next moment again.

local SLICES = 10
local TOTAL = '='  -- member of a gauge: what is held together, as a score below all times

local function number(value)
  return string.format('%.17g', value)
end

local function clock()
  local time = redis.call('TIME')
  return tonumber(time[1]) + tonumber(time[2]) / 1000000
end

local function hold_of(text)
  local strategy, amount, limit, window, shadow =
    string.match(text, '^(%S+) (%S+) (%S+) (%S+) (%S+)$')
  return {
    strategy = strategy,
    amount = tonumber(amount),
    limit = tonumber(limit),
    window = tonumber(window),
    shadow = shadow == '1',
  }
end

local function lifetime(window)
  return math.max(1, math.ceil(window * 2000))
end

-- The words of a counter behind its strategy; nothing, and true, for one of another strategy.
local function words_of(key, strategy)
  local text = redis.call('GET', key)
  if not text then
    return nil, false
  end
  local words = {}
  for word in string.gmatch(text, '%S+') do
    words[#words + 1] = word
  end
  if table.remove(words, 1) ~= strategy then
    return nil, true
  end
  return words, false
end

local function store(key, hold, words)
  local text = hold.strategy .. ' ' .. table.concat(words, ' ')
  redis.call('SET', key, text, 'PX', lifetime(hold.window))
end

local strategies = {}

local LEVELS = 8

local bucket = {}
strategies['token-bucket'] = bucket

-- The debt is this low now: whatever was as high or higher since some claim is one level now.
local function lower(state, debt)
  local levels, removed = state.levels, nil
  while #levels > 0 and levels[#levels].debt >= debt do
    local level = table.remove(levels)
    removed = removed or level.claim
  end
  if removed then
    levels[#levels + 1] = { claim = removed, debt = debt }
  end
  state.counted = debt
end

function bucket.read(key, hold, now)
  local state = { counted = 0, at = now, claim = 0, levels = {} }
  local words, foreign = words_of(key, hold.strategy)
  if not words then
    state.foreign = foreign
    return state
  end
  state.claim = tonumber(words[3])
  for index = 4, #words do
    local claim, debt = string.match(words[index], '^([^=]+)=(.+)$')
    state.levels[index - 3] = { claim = tonumber(claim), debt = tonumber(debt) }
  end
  local debt = tonumber(words[1])
  local elapsed = math.max(0, now - tonumber(words[2]))
  state.moved = tonumber(words[2]) > now
  lower(state, debt - math.min(debt, elapsed * (hold.limit / hold.window)))
  return state
end

function bucket.write(key, hold, state)
  local words = { number(state.counted), number(state.at), number(state.claim) }
  for _, level in ipairs(state.levels) do
    words[#words + 1] = number(level.claim) .. '=' .. number(level.debt)
  end
  store(key, hold, words)
end

function bucket.add(state, amount)
  state.counted = state.counted + amount
end

function bucket.claim(state, amount, now)
  local levels = state.levels
  state.claim = math.max(state.claim + 1, math.floor(now * 1000000))
  bucket.add(state, amount)
  if #levels > 0 and levels[#levels].debt >= amount then
    levels[#levels].claim = state.claim
  else
    if #levels == LEVELS then
      local first = table.remove(levels, 1)
      levels[1].debt = first.debt
    end
    levels[#levels + 1] = { claim = state.claim, debt = state.counted }
  end
  return number(state.claim)
end

function bucket.give_back(state, back, mark)
  for _, level in ipairs(state.levels) do
    if level.claim >= tonumber(mark) then
      lower(state, state.counted - math.min(back, level.debt))
      return true
    end
  end
  return false
end

function bucket.wait(state, hold)
  return (state.counted + hold.amount - hold.limit) / (hold.limit / hold.window)
end

function bucket.reset(state, hold)
  if hold.limit <= 0 then
    return hold.window
  end
  return state.counted / (hold.limit / hold.window)
end

local sliding = {}
strategies['sliding-window'] = sliding

function sliding.read(key, hold, now)
  local width = hold.window / SLICES
  local current = math.floor(now / width)
  local state = { counted = 0, current = current, width = width, slices = {} }
  local words, foreign = words_of(key, hold.strategy)
  if not words or tonumber(words[1]) ~= hold.window then
    state.foreign = foreign or words ~= nil
    return state
  end
  for index = 2, #words do
    local slice, count = string.match(words[index], '^([^=]+)=(.+)$')
    state.moved = state.moved or tonumber(slice) > current
    slice = math.min(tonumber(slice), current)
    if slice >= current - SLICES then
      state.slices[slice] = (state.slices[slice] or 0) + tonumber(count)
      state.counted = state.counted + tonumber(count)
    end
  end
  return state
end

function sliding.write(key, hold, state)
  local words = { number(hold.window) }
  for slice, count in pairs(state.slices) do
    if count > 0 then
      words[#words + 1] = number(slice) .. '=' .. number(count)
    end
  end
  store(key, hold, words)
end

function sliding.claim(state, amount)
  state.slices[state.current] = (state.slices[state.current] or 0) + amount
  state.counted = state.counted + amount
  return number(state.current)
end

sliding.add = sliding.claim

function sliding.give_back(state, back, mark)
  local slice = math.min(tonumber(mark), state.current)
  local count = state.slices[slice]
  if not count then
    return false
  end
  state.slices[slice] = math.max(0, count - back)
  return true
end

function sliding.wait(state, hold, now)
  local left = state.counted
  for slice = state.current - SLICES, state.current do
    left = left - (state.slices[slice] or 0)
    if left + hold.amount <= hold.limit then
      return (slice + SLICES + 1) * state.width - now
    end
  end
  return hold.window
end

function sliding.reset(state, hold, now)
  for slice = state.current, state.current - SLICES, -1 do
    if (state.slices[slice] or 0) > 0 then
      return (slice + SLICES + 1) * state.width - now
    end
  end
  return 0
end

local fixed = {}
strategies['fixed-window'] = fixed

function fixed.read(key, hold, now)
  local state = { counted = 0, index = math.floor(now / hold.window) }
  local words, foreign = words_of(key, hold.strategy)
  if not words or tonumber(words[1]) ~= hold.window then
    state.foreign = foreign or words ~= nil
  elseif tonumber(words[2]) >= state.index then
    state.counted = tonumber(words[3])
    state.moved = tonumber(words[2]) > state.index
  end
  return state
end

function fixed.write(key, hold, state)
  store(key, hold, { number(hold.window), number(state.index), number(state.counted) })
end

function fixed.claim(state, amount)
  state.counted = state.counted + amount
  return number(state.index)
end

fixed.add = fixed.claim

function fixed.give_back(state, back, mark)
  if tonumber(mark) < state.index then
    return false
  end
  state.counted = math.max(0, state.counted - back)
  return true
end

function fixed.wait(state, hold, now)
  return (state.index + 1) * hold.window - now
end

fixed.reset = fixed.wait

local session = {}
strategies['session-window'] = session

function session.read(key, hold, now)
  local words, foreign = words_of(key, hold.strategy)
  if words then
    local begun = math.min(tonumber(words[1]), now)
    if now < begun + hold.window then
      return { counted = tonumber(words[2]), begun = begun, moved = tonumber(words[1]) > now }
    end
  end
  return { counted = 0, begun = now, foreign = foreign }
end

function session.write(key, hold, state)
  store(key, hold, { number(state.begun), number(state.counted) })
end

function session.claim(state, amount)
  state.counted = state.counted + amount
  return number(state.begun)
end

session.add = session.claim

function session.give_back(state, back, mark)
  if tonumber(mark) < state.begun then
    return false
  end
  state.counted = math.max(0, state.counted - back)
  return true
end

function session.wait(state, hold, now)
  return state.begun + hold.window - now
end

session.reset = session.wait

local gauge = {}
strategies['gauge'] = gauge

local function member_of(hold, request)
  return number(hold.amount) .. ' ' .. request
end

-- Takes the member out of the gauge. Its total goes with the last one.
local function let_go(key, member)
  if redis.call('ZREM', key, member) == 1 then
    local amount = tonumber(string.match(member, '^%S+'))
    local total = tonumber(redis.call('ZINCRBY', key, number(amount), TOTAL))
    if total >= 0 then
      redis.call('ZREM', key, TOTAL)
    end
  end
end

function gauge.read(key, hold, now)
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', key, '(0', number(now))) do
    let_go(key, member)
  end
  return { counted = -tonumber(redis.call('ZSCORE', key, TOTAL) or 0), key = key }
end

function gauge.hold(state, hold, request, now)
  local member = member_of(hold, request)
  if redis.call('ZADD', state.key, number(now + hold.window), member) == 1 then
    redis.call('ZINCRBY', state.key, number(-hold.amount), TOTAL)
    state.counted = state.counted + hold.amount
  end
  redis.call('PEXPIRE', state.key, lifetime(hold.window))
end

function gauge.renew(state, hold, request, now)
  if redis.call('ZSCORE', state.key, member_of(hold, request)) then
    gauge.hold(state, hold, request, now)
  end
end

function gauge.wait(state, hold, now)
  local first = redis.call('ZRANGEBYSCORE', state.key, '(0', '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  return first[2] and math.min(1, tonumber(first[2]) - now) or 1
end

function gauge.reset(state)
  return state.counted > 0 and 1 or 0
end
