// What is being typed over something that is stored, which may change meanwhile.
import { useCallback, useState } from "./html.js";

const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);
const nested = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

/** `now` with what was changed from `before` to `value`, field by field. */
function rebased(before, value, now) {
  if (same(before, value)) return now;
  if (![before, value, now].every(nested)) return value;
  const names = new Set([...Object.keys(now), ...Object.keys(value)]);
  const entries = [...names].map((name) => [name, rebased(before[name], value[name], now[name])]);
  return Object.fromEntries(entries.filter(([, one]) => one !== undefined));
}

/**
 * `[value, setValue, settle]` of a form over `stored`. When what is stored is another, the fields that
 * have been typed into stay as they are, and all others follow. `settle()` says that nothing of this
 * `value` is to be kept any more: it has been saved, or given up. What was typed since then is kept.
 */
export function useDraft(stored) {
  const [draft, setDraft] = useState(null);
  const value = draft ? rebased(draft.before, draft.value, stored) : stored;
  const setValue = useCallback((next) => setDraft({ before: stored, value: next }), [stored]);
  const settle = () => setDraft((now) => (now === draft ? null : { before: value, value: now.value }));
  return [value, setValue, settle];
}
