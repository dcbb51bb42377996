// Dialogs: the browser's own, which keeps the focus inside and closes on Escape.
import { html, useLayoutEffect, useRef, useState } from "../core/html.js";
import { t } from "../strings.js";

/** Shows `children` above everything until `onClose()`. */
export function Dialog({ title, onClose, wide = false, kind = "", children }) {
  const element = useRef(null);
  // Before the next key is pressed: what is typed at once belongs to the dialog.
  useLayoutEffect(() => {
    const before = document.activeElement;
    element.current.showModal();
    return () => before?.isConnected && before.focus();
  }, []);
  const cancelled = (event) => {
    event.preventDefault();
    onClose();
  };
  const outside = (event) => event.target === element.current && onClose();
  return html`<dialog
    ref=${element}
    class=${`${kind} ${wide ? "wide" : ""}`}
    aria-label=${title}
    onCancel=${cancelled}
    onMouseDown=${outside}
  >
    ${children}
  </dialog>`;
}

/** Asks before something that cannot be undone. `act()` may fail; the reason is then shown. */
export function Confirm({ title, hint, action, tone = "danger", act, onClose, cancel = t.cancel, children }) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      await act();
    } catch (problem) {
      setError(problem);
      setBusy(false);
    }
  };
  return html`<${Dialog} title=${title} onClose=${onClose}>
    <form onSubmit=${submit}>
      <h2>${title}</h2>
      ${hint && html`<p class="hint">${hint}</p>`} ${children}
      ${error && html`<p class="notice bad" role="alert">${error.message}</p>`}
      <div class="actions">
        <button type="button" onClick=${onClose}>${cancel}</button>
        <button type="submit" class=${tone} disabled=${busy}>${action}</button>
      </div>
    </form>
  <//>`;
}
