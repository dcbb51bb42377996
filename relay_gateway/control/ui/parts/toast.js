// Short messages that go away by themselves.
import { html, useEffect, useState } from "../core/html.js";

let show = () => {};

/** Says `text` for some seconds. */
export const toast = (text) => show(text);

/** Where they appear; once in the page. */
export function Toasts() {
  const [items, setItems] = useState([]);
  useEffect(() => {
    show = (text) => {
      const item = { text, key: Math.random() };
      setItems((old) => [...old.slice(-3), item]);
      setTimeout(() => setItems((old) => old.filter((one) => one !== item)), 5000);
    };
  }, []);
  return html`<div class="toasts" role="status" aria-live="polite">
    ${items.map((item) => html`<div key=${item.key}>${item.text}</div>`)}
  </div>`;
}
