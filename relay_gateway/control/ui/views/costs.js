// What each meter of a request cost, where today's price list says so exactly.
const MILLION = 1_000_000;

/** Meters that are counted within another; one with a rate of its own is taken out of the whole. */
const PARTS = {
  "tokens.input": ["tokens.cacheRead", "tokens.cacheWrite", "tokens.cacheWrite1h", "tokens.audioInput"],
  "tokens.output": ["tokens.reasoning", "tokens.audioOutput"],
};

/** The rate of a meter for a prompt of so many tokens. */
function rateOf(rates, meter, prompt) {
  const fitting = rates.filter((one) => one.meter === meter && (!one.aboveTokens || prompt > one.aboveTokens));
  return fitting.sort((one, other) => other.aboveTokens - one.aboveTokens)[0];
}

/**
 * Billionths of the currency by the name of the meter; null where they do not add up to what the
 * record says, because the price list has more to say than this knows.
 */
export function costsOf(log, meters, { rates, multipliers }) {
  const rate = (meter) => rateOf(rates, meter, log.tokens.input ?? 0);
  const counts = new Map([...meters, ...(rate("requests") ? [["requests", 1]] : [])]);
  const factor = Number(multipliers?.[log.tier?.toLowerCase()] ?? 1);
  const costs = new Map();
  for (const [meter, count] of counts) {
    const found = rate(meter);
    if (!found) continue;
    const apart = (PARTS[meter] ?? []).filter(rate).reduce((sum, part) => sum + (counts.get(part) ?? 0), 0);
    const price = (Number(found.amount) * 1e9) / (found.unit === "perUnit" ? 1 : MILLION);
    costs.set(meter, (count - apart) * price * (meter.startsWith("tokens.") ? factor : 1));
  }
  const whole = [...costs.values()].reduce((sum, one) => sum + one, 0);
  return Math.abs(whole - log.costNanos) <= costs.size ? costs : null;
}
