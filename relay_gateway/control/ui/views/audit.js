// Who did what, from where, and what was different afterwards.
import { html, useState } from "../core/html.js";
import { get } from "../core/api.js";
import { ago, moment } from "../core/format.js";
import { usePages } from "../core/pages.js";
import { useLocation } from "../core/router.js";
import { Badge, Busy, Empty, Facts, Failure } from "../parts/bits.js";
import { Dialog } from "../parts/dialog.js";
import { Diff } from "../parts/diff.js";
import { QueryField } from "../parts/query_field.js";
import { t } from "../strings.js";

const FILTERS = ["action", "kind", "actor", "slug", "address"];
const TONES = { delete: "bad", "login-failed": "bad", create: "good", update: "accent" };

export function View() {
  const { query } = useLocation();
  const wanted = Object.fromEntries(query.entries());
  const { rows, first, more, busy, loading, error, reload } = usePages("/audit", wanted, [query.toString()]);
  const [opened, setOpened] = useState(null);
  return html`
    <header><h1>${t.nav.audit}</h1><${Verification} /></header>
    <p class="hint">${t.audit.hint}</p>
    <div class="toolbar" role="search">${FILTERS.map((name) => html`<${QueryField} key=${name} class="narrow" ...${{ name, value: query.get(name) ?? "", placeholder: t.audit.filter[name], "aria-label": t.audit.filter[name] }} />`)}</div>
    <${Busy} active=${loading} />
    ${error && html`<${Failure} error=${error} retry=${reload} />`}
    ${first && !rows.length && html`<${Empty} title=${t.list.nothing} action=${html`<a href="/ui/audit">${t.list.clear}</a>`}>${t.list.nothingHint}<//>`}
    ${rows.length > 0 &&
    html`<div class="scroll" tabindex="0" role="region" aria-label=${t.nav.audit}>
      <table class="table">
        <thead><tr>${t.audit.columns.map((title) => html`<th scope="col">${title}</th>`)}</tr></thead>
        <tbody data-rows>
          ${rows.map(
            (row) => html`<tr key=${row.sequence}>
              <td><span title=${moment(row.occurredAt)}>${ago(row.occurredAt)}</span></td>
              <td><${Badge} tone=${TONES[row.action] ?? ""}>${row.action}<//></td>
              <td>${row.kind}<span class="under">${row.slug ?? row.target ?? ""}</span></td>
              <td>${row.actor || "–"}<span class="under">${[row.method, row.address].filter(Boolean).join(", ")}</span></td>
              <td><button type="button" data-row onClick=${() => setOpened(row)}>${t.audit.show}</button></td>
            </tr>`,
          )}
        </tbody>
      </table>
    </div>`}
    ${more && html`<p class="more"><button type="button" disabled=${busy} onClick=${more}>${t.more}</button></p>`}
    ${opened && html`<${Detail} row=${opened} onClose=${() => setOpened(null)} />`}
  `;
}

function Detail({ row, onClose }) {
  return html`<${Dialog} title=${`${row.action} ${row.kind}`} wide onClose=${onClose}>
    <div class="content">
      <h2>${row.action} ${row.kind}</h2>
      <${Facts} items=${[
        [t.audit.when, moment(row.occurredAt)],
        [t.audit.who, [row.actor, row.method, row.address].filter(Boolean).join(", ")],
        row.target && [t.audit.target, html`<code>${row.target}</code>`],
        row.requestId && [t.audit.request, html`<code>${row.requestId}</code>`],
        row.revision && [t.audit.revision, row.revision],
        [t.audit.hash, html`<code>${row.hash}</code>`],
      ]} />
      ${(row.before || row.after) && html`<${Diff} before=${row.before ?? {}} after=${row.after ?? {}} />`}
      ${row.detail && html`<pre class="config">${JSON.stringify(row.detail, null, 2)}</pre>`}
      <div class="actions"><button type="button" autofocus onClick=${onClose}>${t.close}</button></div>
    </div>
  <//>`;
}

/** Whether every record still follows from the one before it. */
function Verification() {
  const [state, setState] = useState(null);
  const verify = async () => {
    setState({ busy: true });
    try {
      setState({ report: await get("/audit/verify") });
    } catch (error) {
      setState({ error });
    }
  };
  const report = state?.report;
  return html`
    ${state?.error && html`<span class="badge bad" role="alert">${state.error.message}</span>`}
    ${report && html`<span class=${`badge ${report.intact ? "good" : "bad"}`} role="status">${report.intact ? t.audit.intact(report.records) : report.problem}</span>`}
    <button type="button" disabled=${state?.busy} onClick=${verify}>${t.audit.verify}</button>
  `;
}
