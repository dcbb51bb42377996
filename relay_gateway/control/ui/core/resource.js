// Data of the API in a component: loading, failed, there, and there while it is loaded again.
import { onReachable } from "./api.js";
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "./html.js";

/**
 * What `load(signal)` gives, loaded again when one of `keys` changes. The last data stays while that
 * happens. Gives `{ data, error, loading, reload, set }`; `set` takes data, or what makes it of the old.
 */
export function useResource(load, keys) {
  const [state, setState] = useState({ data: undefined, error: null, loading: true });
  const running = useRef(null);
  const reload = useCallback(() => {
    running.current?.abort();
    const controller = (running.current = new AbortController());
    setState((old) => (old.loading ? old : { ...old, loading: true }));
    return load(controller.signal).then(
      (data) => running.current === controller && setState({ data, error: null, loading: false }),
      (error) => {
        if (error.name === "AbortError" || running.current !== controller) return;
        setState((old) => ({ data: old.data, error, loading: false }));
      },
    );
  }, keys);
  // Before the frame is painted, so that the request does not wait for it.
  useLayoutEffect(() => {
    reload();
    return () => running.current?.abort();
  }, [reload]);
  const unanswered = state.error?.status === 0;
  useEffect(() => (unanswered ? onReachable((now) => now && reload()) : undefined), [unanswered, reload]);
  const set = useCallback(
    (next) => setState((old) => ({ data: typeof next === "function" ? next(old.data) : next, error: null, loading: false })),
    [],
  );
  return { ...state, reload, set };
}

/** Calls `action` every `seconds` while the page is seen. */
export function useInterval(action, seconds, active = true) {
  const latest = useRef(action);
  latest.current = action;
  useEffect(() => {
    if (!active) return undefined;
    const timer = setInterval(() => document.hidden || latest.current(), seconds * 1000);
    return () => clearInterval(timer);
  }, [seconds, active]);
}

/** `value`, but only once it has not changed for `milliseconds`. */
export function useSettled(value, milliseconds = 200) {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), milliseconds);
    return () => clearTimeout(timer);
  }, [value, milliseconds]);
  return settled;
}
