// The address bar is the state of every view: what can be seen can be linked to.
import { useLayoutEffect, useState } from "./html.js";
import { t } from "../strings.js";

const ROOT = "/ui";
const listeners = new Set();
/** Says whether the view that is shown may be left without a question. */
let mayLeave = null;
let ask = (go) => go();
/** Which step of the history is shown, and its address: the browser has already moved when it tells. */
let step = history.state?.step ?? 0;
let shown = location.pathname + location.search;

/** `{ path, query }`: the path below `/ui`, and its parameters. */
export function currentLocation() {
  const path = location.pathname.slice(ROOT.length).replace(/\/+$/, "") || "/";
  return { path, query: new URLSearchParams(location.search) };
}

function tell() {
  shown = location.pathname + location.search;
  listeners.forEach((listener) => listener(currentLocation()));
}

/** Does `go()`, at once or when whoever typed has agreed to lose it. */
export function leave(go) {
  if (!mayLeave || mayLeave()) go();
  else ask(() => ((mayLeave = null), go()));
}

/** Lets `listener(go)` ask whether the view is left; it calls `go()` when it is. */
export function askBeforeLeaving(listener) {
  ask = listener;
}

/** A button of the browser was used, or a fragment of the page was chosen. */
function moved() {
  const to = history.state?.step ?? step + 1;
  if (!history.state) history.replaceState({ step: to }, "");
  const back = step - to;
  const moves = location.pathname !== shown.split("?")[0];
  if (moves && mayLeave && !mayLeave()) {
    history.go(back);
    leave(() => history.go(-back));
    return;
  }
  step = to;
  tell();
}

/** Another view is shown only while `clean()`, or when it was agreed to; gives what ends that. */
export function guardLeaving(clean) {
  mayLeave = clean;
  const warn = (event) => clean() || event.preventDefault();
  addEventListener("beforeunload", warn);
  return () => {
    if (mayLeave === clean) mayLeave = null;
    removeEventListener("beforeunload", warn);
  };
}

/** Shows the view at `path`, which begins with a slash and may have a query. */
export function navigate(path, { replace = false } = {}) {
  const target = ROOT + path;
  const moves = target.split("?")[0] !== location.pathname;
  const go = () => {
    const stays = replace || target === location.pathname + location.search;
    if (!stays) step += 1;
    history[stays ? "replaceState" : "pushState"]({ step }, "", target);
    tell();
    if (moves) scrollTo(0, 0);
  };
  if (moves) leave(go);
  else go();
}

/** What the tab and the history of the browser call what is shown. */
export function nameTab(text) {
  document.title = text ? `${text} · ${t.product}` : t.product;
}

/** Changes parameters of the address of this view; null and "" take one out. */
export function setQuery(changes, { replace = true } = {}) {
  const { path, query } = currentLocation();
  for (const [name, value] of Object.entries(changes)) {
    query.delete(name);
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== "") query.append(name, one);
    }
  }
  const text = query.toString();
  navigate(text ? `${path}?${text}` : path, { replace });
}

/** The location, in a component that is drawn again when it changes. */
export function useLocation() {
  const [place, setPlace] = useState(currentLocation);
  useLayoutEffect(() => {
    listeners.add(setPlace);
    return () => listeners.delete(setPlace);
  }, []);
  return place;
}

/** Follows links and the buttons of the browser. */
export function startRouter() {
  if (!history.state) history.replaceState({ step }, "");
  addEventListener("popstate", moved);
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href]");
    const plain = event.button === 0 && !(event.metaKey || event.ctrlKey || event.shiftKey);
    if (!link || !plain || event.defaultPrevented || link.target || link.download || link.hash) return;
    const url = new URL(link.href);
    if (url.origin !== location.origin || !url.pathname.startsWith(`${ROOT}/`)) return;
    event.preventDefault();
    navigate(url.pathname.slice(ROOT.length) + url.search);
  });
}
