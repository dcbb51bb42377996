// Small things that every view shows: badges, notices, empty places, something to copy.
import { html, useState } from "../core/html.js";
import { t } from "../strings.js";

/** A word on a coloured ground; `tone` is good, warn, bad or accent. */
export const Badge = ({ tone = "", children }) => html`<span class="badge ${tone}">${children}</span>`;

/** The state of an entity or a plugin. */
export function State({ value }) {
  const good = ["available", "open", "ok", "active", "configured", "in-force"];
  const bad = ["benched", "ejected", "quarantined", "failed", "revoked", "upstream_error", "aborted", "timeout"];
  const tone = good.includes(value) ? "good" : bad.includes(value) ? "bad" : "";
  return html`<${Badge} tone=${tone}>${value}<//>`;
}

/** A text of the API, in which words between backticks are code. */
export const Prose = ({ text }) => text.split(/`+([^`]+)`+/).map((part, index) => (index % 2 ? html`<code>${part}</code>` : part));

/** Why something failed, with a way to try again. */
export function Failure({ error, retry }) {
  return html`<div class="notice bad row spread" role="alert">
    <span>${error.message || t.failed}</span>
    ${retry && html`<button type="button" onClick=${retry}>${t.retry}</button>`}
  </div>`;
}

/** What stands where there is nothing yet. */
export function Empty({ title, children, action, level = "h2" }) {
  return html`<div class="empty">
    <${level}>${title}<//>
    <p>${children}</p>
    ${action}
  </div>`;
}

/** A line that moves while something is loaded; it takes no room when nothing is. */
export const Busy = ({ active = true }) =>
  html`<div class="bar" role="status" aria-label=${active ? t.loading : undefined}>
    ${active && html`<i></i>`}
  </div>`;

/** Copies `text`, and says that it did. */
export function CopyButton({ text, label = t.copy }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await copyText(text);
    setDone(true);
    setTimeout(() => setDone(false), 1600);
  };
  return html`<button type="button" onClick=${copy} aria-live="polite">
    ${done ? t.copied : label}
  </button>`;
}

async function copyText(text) {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text);
    return;
  }
  // Without TLS browsers only have the old way.
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

/** Text that somebody will want to copy. */
export const Copyable = ({ text }) =>
  html`<div class="copyable"><pre tabindex="0">${text}</pre><${CopyButton} text=${text} /></div>`;

/** Names and values. */
export const Facts = ({ items }) =>
  html`<dl class="facts">
    ${items.filter(Boolean).map(([name, value]) => html`<dt>${name}</dt><dd>${value ?? "–"}</dd>`)}
  </dl>`;
