// Single keys and chords, which never act while somebody types. What is pressed while a view is
// still loading is kept for it, so that nobody has to wait for the page with the next key.
const GO = { o: "/", l: "/logs", r: "/relay-keys", m: "/models", h: "/hosts" };
const CHORD_MS = 1200;
const KEPT_MS = 10_000;

const TEXT = "input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]";
const typing = (element) => element.closest?.(TEXT);
const loading = () => document.querySelector(".bar > i") !== null;
const press = (selector) => document.querySelector(selector)?.click();

/** Types `key` into a field as if it had been there when the key was pressed. */
function typeInto(element, key) {
  if (key === "Enter") element.form?.requestSubmit();
  if (key.length !== 1 || typeof element.selectionStart !== "number") return;
  element.setRangeText(key, element.selectionStart, element.selectionEnd, "end");
  element.dispatchEvent(new InputEvent("input", { bubbles: true, data: key, inputType: "insertText" }));
}

/**
 * Listens for the shortcuts of the whole dashboard. `actions` are `palette`, `help`, `move(step)` and
 * `navigate(path)`. Views mark what the other keys find: `data-search`, `data-create`, `data-save`.
 */
export function listenForShortcuts(actions) {
  let going = -Infinity;
  let kept = [];

  /** Whether `key`, pressed at a time in milliseconds, meant something. */
  const perform = (key, at) => {
    const goes = at - going < CHORD_MS && GO[key];
    going = key === "g" && !goes ? at : -Infinity;
    if (goes) actions.navigate(goes);
    else if (key === "?") actions.help();
    else if (key === "/") document.querySelector("[data-search]")?.focus();
    else if (key === "n") press("[data-create]");
    else if (key === "j" || key === "k") actions.move(key === "j" ? 1 : -1);
    else return key === "g";
    return true;
  };

  /** Does what was pressed since, once the view is there. */
  const catchUp = () => {
    if (!kept.length) return;
    if (loading() && performance.now() - kept[0].at < KEPT_MS) {
      requestAnimationFrame(catchUp);
      return;
    }
    const [next, ...rest] = kept;
    kept = rest;
    const here = document.activeElement;
    if (typing(here)) typeInto(here, next.key);
    else if (next.key === "Enter") here.click();
    else if (!document.querySelector("dialog[open]")) perform(next.key.toLowerCase(), next.at);
    catchUp();
  };

  const keep = (event) => {
    if (kept.length === 0) requestAnimationFrame(catchUp);
    kept.push({ key: event.key, at: event.timeStamp });
  };

  /** Keys that lead away need not wait for what is not wanted any more. */
  const leads = (key, at) => key === "g" || key === "?" || at - going < CHORD_MS;

  const waits = (event, key) => {
    if (kept.length) return key.length === 1 || key === "enter";
    return loading() && key.length === 1 && key !== " " && !leads(key, event.timeStamp);
  };

  const listen = (event) => {
    const key = event.key.toLowerCase();
    const chord = event.ctrlKey || event.metaKey;
    if (chord && key === "k") actions.palette();
    else if (chord && key === "s" && document.querySelector("[data-save]")) press("[data-save]");
    else if (chord || event.altKey || typing(event.target) || document.querySelector("dialog[open]")) return;
    else if (waits(event, key)) keep(event);
    else if (!perform(key, event.timeStamp)) return;
    event.preventDefault();
  };
  addEventListener("keydown", listen);
  return () => removeEventListener("keydown", listen);
}
