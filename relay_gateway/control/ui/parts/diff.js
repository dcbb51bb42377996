// What is different between two versions, field by field.
import { html } from "../core/html.js";
import { t } from "../strings.js";

function flatten(value, path, into) {
  const nested = value && typeof value === "object";
  if (!nested || !Object.keys(value).length) {
    into.set(path, nested ? (Array.isArray(value) ? "[]" : "{}") : value);
    return into;
  }
  for (const [name, one] of Object.entries(value)) {
    const step = Array.isArray(value) ? `[${name}]` : path ? `.${name}` : name;
    flatten(one, path + step, into);
  }
  return into;
}

/** `[{ path, before, after }]`; what is only on one side has undefined on the other. */
export function differences(before, after) {
  const old = flatten(before ?? {}, "", new Map());
  const now = flatten(after ?? {}, "", new Map());
  const paths = [...new Set([...old.keys(), ...now.keys()])];
  return paths
    .map((path) => ({ path, before: old.get(path), after: now.get(path) }))
    .filter((one) => one.path !== "" && JSON.stringify(one.before) !== JSON.stringify(one.after));
}

const shown = (value) => (value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value));

/** Both versions beside each other, only where they differ. */
export function Diff({ before, after, titles = [t.entity.before, t.entity.after] }) {
  const rows = differences(before, after);
  if (!rows.length) return html`<p class="hint">${t.entity.unchanged}</p>`;
  return html`<div class="scroll">
    <table class="diff">
      <thead>
        <tr><th scope="col">${t.entity.field}</th><th scope="col">${titles[0]}</th><th scope="col">${titles[1]}</th></tr>
      </thead>
      <tbody>
        ${rows.map(
          (row) => html`<tr key=${row.path}>
            <td class="mono">${row.path}</td>
            <td class="before mono">${shown(row.before)}</td>
            <td class="after mono">${shown(row.after)}</td>
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}
