// A field whose text becomes a parameter of the address, once somebody has stopped typing.
import { html, useEffect, useRef, useState } from "../core/html.js";
import { setQuery } from "../core/router.js";

const SETTLES_MS = 250;

/**
 * `name` is the parameter and `value` what the address says of it now; `whole(text)` is what of a
 * text is worth asking for. Other properties are those of the `input`.
 */
export function QueryField({ name, value, whole = (text) => text, ...given }) {
  const [typed, setTyped] = useState(value);
  const said = useRef(value);
  const timer = useRef(0);
  useEffect(() => () => clearTimeout(timer.current), []);
  // The address was changed by something else: a link that clears filters, the back button.
  useEffect(() => {
    if (value === said.current) return;
    clearTimeout(timer.current);
    said.current = value;
    setTyped(value);
  }, [value]);
  const say = (text) => {
    if (text === said.current) return;
    said.current = text;
    setQuery({ [name]: text });
  };
  const type = (event) => {
    const text = event.target.value;
    setTyped(text);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => say(whole(text)), SETTLES_MS);
  };
  const enter = (event) => {
    if (event.key !== "Enter") return;
    clearTimeout(timer.current);
    say(whole(typed));
  };
  return html`<input ...${given} value=${typed} onInput=${type} onKeyDown=${enter} />`;
}
