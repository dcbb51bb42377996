// Figures, money and times as people read them.
const LANGUAGE = "en";
const ZONE_KEY = "relay-time-zone";
const whole = new Intl.NumberFormat(LANGUAGE);
const short = new Intl.NumberFormat(LANGUAGE, { notation: "compact", maximumFractionDigits: 1 });

const relative = new Intl.RelativeTimeFormat(LANGUAGE, { numeric: "auto" });
const formats = new Map();

/** What `make()` gives, once for each `key`: formats are dear to make, and lists need many. */
function once(key, make) {
  if (!formats.has(key)) formats.set(key, make());
  return formats.get(key);
}

/** A format for times in the chosen zone. */
const timeFormat = (options) =>
  once(`${timeZone()} ${JSON.stringify(options)}`, () => new Intl.DateTimeFormat("en-GB", { ...options, timeZone: timeZone() }));

/** Time zones that can be chosen: that of the browser, or UTC. */
export const timeZone = () => localStorage.getItem(ZONE_KEY) || undefined;
/** Chooses `"UTC"`, or with undefined that of the browser. */
export const setTimeZone = (zone) =>
  zone ? localStorage.setItem(ZONE_KEY, zone) : localStorage.removeItem(ZONE_KEY);

/** What a `datetime-local` field shows for a moment, in the chosen zone; "" for none. */
export function fieldOf(text) {
  if (!text) return "";
  const given = new Date(text);
  const shift = timeZone() ? 0 : given.getTimezoneOffset() * 60_000;
  return new Date(given - shift).toISOString().slice(0, 16);
}

/** The moment, in UTC, that a `datetime-local` field of the chosen zone means; null for none. */
export const momentOf = (value) => (value ? new Date(timeZone() ? `${value}Z` : value).toISOString() : null);

/** `1,234` */
export const number = (value) => (value === null || value === undefined ? "–" : whole.format(value));
/** `1.2K` */
export const compact = (value) => (value === null || value === undefined ? "–" : short.format(value));

/** An amount in nano-units of `currency`, exact to the last digit that is not zero. */
export function money(nanos, currency = "USD") {
  if (nanos === null || nanos === undefined) return "–";
  const units = nanos / 1e9;
  const digits = units === 0 || Math.abs(units) >= 100 ? 2 : Math.abs(units) >= 0.01 ? 4 : 9;
  const format = { style: "currency", currency, minimumFractionDigits: 2, maximumFractionDigits: digits };
  return once(`${currency} ${digits}`, () => new Intl.NumberFormat(LANGUAGE, format)).format(units);
}

/** `340 ms`, `2.4 s`, `3 min 5 s` */
export function duration(milliseconds) {
  if (milliseconds === null || milliseconds === undefined) return "–";
  if (milliseconds > 0 && milliseconds < 0.01) return "< 0.01 ms";
  if (milliseconds < 1) return `${milliseconds.toFixed(2)} ms`;
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
  if (milliseconds < 60_000) return `${(milliseconds / 1000).toFixed(1)} s`;
  const seconds = Math.round(milliseconds / 1000);
  return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

/** `12.3 KB` */
export function bytes(count) {
  if (count === null || count === undefined) return "–";
  const units = ["B", "KB", "MB", "GB", "TB"];
  let power = 0;
  for (; count >= 1000 && power < units.length - 1; power += 1) count /= 1000;
  return `${power ? count.toFixed(1) : count} ${units[power]}`;
}

/** `20 Nov 2026, 14:05:09` in the chosen zone. */
export function moment(text, { seconds = true } = {}) {
  if (!text) return "–";
  return timeFormat({ dateStyle: "medium", timeStyle: seconds ? "medium" : "short" }).format(new Date(text));
}

/** What an axis says at a time in seconds: `14:05`, and with the first time of a day its date. */
export function axisTime(seconds, before) {
  const say = (at, options) => timeFormat(options).format(new Date(at * 1000));
  const day = (at) => say(at, { day: "numeric", month: "short" });
  const time = say(seconds, { hour: "2-digit", minute: "2-digit" });
  const newDay = before === undefined || day(before) !== day(seconds);
  if (time === "00:00") return day(seconds);
  return newDay ? `${time}\n${day(seconds)}` : time;
}

const CLOCK = { hour: "2-digit", minute: "2-digit", second: "2-digit" };
const DAY = { day: "2-digit", month: "short" };
/** `14:05:09.123` today, `20 Nov, 14:05:09` on another day, in the chosen zone. */
export function timeOfLine(text, now = Date.now()) {
  const given = new Date(text);
  const day = timeFormat(DAY);
  const today = day.format(given) === day.format(now);
  return timeFormat(today ? { ...CLOCK, fractionalSecondDigits: 3 } : { ...DAY, ...CLOCK }).format(given);
}

/** `3 minutes ago`, `in 2 days` */
export function ago(text, now = Date.now()) {
  if (!text) return "–";
  const seconds = (new Date(text).getTime() - now) / 1000;
  const steps = [
    ["year", 31_557_600],
    ["month", 2_629_800],
    ["day", 86_400],
    ["hour", 3600],
    ["minute", 60],
  ];
  for (const [unit, size] of steps) {
    if (Math.abs(seconds) >= size) return relative.format(Math.round(seconds / size), unit);
  }
  return relative.format(Math.round(seconds), "second");
}

/** A name that programs compare byte by byte: what only looks like ASCII is seen not to be. */
export const exact = (name) =>
  name?.replace(/[^\x20-\x7e]/gu, (character) => `\\u{${character.codePointAt(0).toString(16)}}`);

/** `hostKeyIds` as `Host keys`, `baseUrl` as `Base URL`, `amountNanos` as `Amount`. */
export function label(name) {
  const words = name
    .replace(/Ids$/, "s")
    .replace(/(Id|Nanos)$/, "")
    .replace(/([a-z0-9])([A-Z])/g, "$1 $2")
    .split(/[ ._-]+/)
    .map((word) => (/^(url|id|tls|ca|api|cidrs?)$/i.test(word) ? word.toUpperCase() : word.toLowerCase()));
  const text = words.join(" ").replace("CIDRS", "CIDRs");
  return text.charAt(0).toUpperCase() + text.slice(1);
}
