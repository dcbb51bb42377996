// The entities of one kind: searched, filtered, sorted, and all of it in the address bar.
import { html } from "../core/html.js";
import { ago, exact, label, moment, number } from "../core/format.js";
import { usePages } from "../core/pages.js";
import { setQuery, useLocation } from "../core/router.js";
import { REFERENCES } from "../core/schema.js";
import { Badge, Busy, Empty, Failure, State } from "../parts/bits.js";
import { EntityName } from "../parts/picker.js";
import { QueryField } from "../parts/query_field.js";
import { Table } from "../parts/table.js";
import { t } from "../strings.js";

const text = (name) => ({ title: label(name), sorts: name, cell: (row) => row.spec[name] ?? "–" });
const reference = (name) => ({
  title: label(name),
  cell: (row) => html`<${EntityName} plural=${REFERENCES[name]} id=${row.spec[name]} />`,
});
const figure = (title, count) => ({ title, figure: true, cell: (row) => number(count(row.spec)) });
const mono = (title, cell) => ({ title, cell: (row) => html`<code class="cut">${cell(row)}</code>` });

/** What a list shows of each kind besides the name. */
const COLUMNS = {
  "relay-keys": [
    mono(t.list.prefix, (row) => row.spec.prefix ?? row.metadata.slug),
    reference("policyId"),
    { title: t.keys.status, cell: (row) => html`<${State} value=${keyState(row)} />` },
    { title: t.list.lastUsed, cell: (row) => ago(row.status?.lastUsedAt) },
  ],
  policies: [
    figure(t.kinds.models.many, (spec) => spec.models.length),
    figure(t.list.limits, (spec) => spec.rateLimits.length),
    figure(t.overview.budgets, (spec) => spec.budgets.length),
    text("keySelection"),
  ],
  models: [mono(t.list.calledAs, (row) => exact(row.spec.name) ?? row.metadata.slug), reference("providerId"), figure(t.kinds.hosts.many, (spec) => spec.bindings.length)],
  hosts: [mono(t.list.baseUrl, (row) => row.spec.baseUrl), text("adapter")],
  "host-keys": [
    reference("hostId"),
    { title: t.list.secret, cell: (row) => row.spec.valueFrom?.kind },
    { title: t.keys.status, cell: (row) => html`<${State} value=${row.status?.state ?? "–"} />` },
  ],
  providers: [text("homepageUrl")],
  pricings: [text("currency"), figure(t.list.rates, (spec) => spec.rates.length)],
  "rate-limits": [{ title: t.list.rules, cell: (row) => row.spec.rules.map(ruleText).join(", ") }],
};

const ruleText = (rule) =>
  `${number(rule.amount)} ${rule.meter}${rule.windowSeconds ? ` / ${rule.windowSeconds} s` : ""}`;

/** What a relay key is: revoked, expired or active. */
export function keyState(row) {
  if (row.spec.revokedAt) return "revoked";
  if (row.spec.expiresAt && new Date(row.spec.expiresAt) < new Date()) return "expired";
  return row.spec.enabled ? "active" : "disabled";
}

function nameColumn(kind) {
  return {
    title: t.list.name,
    sorts: "displayName",
    cell: (row) => html`<a href=${`/ui/${kind}/${row.metadata.id}`}>${row.metadata.displayName}</a>
      ${!row.spec.enabled && html` <${Badge}>${t.list.disabled}<//>`}
      <span class="under">${row.metadata.description || row.metadata.slug}</span>`,
  };
}

const updatedColumn = {
  title: t.list.updated,
  sorts: "updatedAt",
  cell: (row) => html`<span title=${moment(row.metadata.updatedAt)}>${ago(row.metadata.updatedAt)}</span>`,
};

export function View({ kind }) {
  const { query } = useLocation();
  const names = t.kinds[kind];
  const wanted = Object.fromEntries([...query.entries()].filter(([name]) => name !== "cursor"));
  const sort = query.get("sort") ?? "displayName";
  const { rows, first, more, busy, loading, error, reload } = usePages(`/${kind}`, { sort, ...wanted }, [kind, query.toString()]);
  const filtered = [...query.keys()].some((name) => name !== "sort");
  return html`
    <header>
      <h1>${names.many}</h1>
      <a class="button primary" href=${`/ui/${kind}/new`} data-create>${t.list.create(names.one)}</a>
    </header>
    <p class="hint">${names.hint}</p>
    <${Toolbar} query=${query} total=${first?.total} />
    <${Busy} active=${loading} />
    ${error && html`<${Failure} error=${error} retry=${reload} />`}
    ${rows.length > 0 &&
    html`<${Table}
      label=${names.many}
      columns=${[nameColumn(kind), ...COLUMNS[kind], updatedColumn]}
      rows=${rows}
      link=${(row) => `/${kind}/${row.metadata.id}`}
      sort=${sort}
      onSort=${(next) => setQuery({ sort: next === "displayName" ? null : next })}
    />`}
    ${more && html`<p class="more"><button type="button" disabled=${busy} onClick=${more}>${t.more}</button></p>`}
    ${first && !rows.length && html`<${Nothing} kind=${kind} filtered=${filtered} />`}
  `;
}

/** A label is asked for once it has a name and a value. */
const wholeLabel = (text) => (/^[^=]+=/.test(text) ? text : "");

function Toolbar({ query, total }) {
  const field = (name, title) => ({ name, value: query.get(name) ?? "", placeholder: title, "aria-label": title });
  return html`<div class="toolbar" role="search">
    <${QueryField} type="search" data-search ...${field("q", t.list.search)} />
    <${QueryField} class="narrow" whole=${wholeLabel} ...${field("label", t.list.label)} />
    <select aria-label=${t.list.state} value=${query.get("enabled") ?? ""} onChange=${(event) => setQuery({ enabled: event.target.value })}>
      <option value="">${t.list.any}</option>
      <option value="true">${t.list.enabled}</option>
      <option value="false">${t.list.disabled}</option>
    </select>
    ${total !== undefined && html`<span class="hint" role="status">${t.list.total(total)}</span>`}
  </div>`;
}

function Nothing({ kind, filtered }) {
  const names = t.kinds[kind];
  if (filtered) {
    return html`<${Empty} title=${t.list.nothing} action=${html`<a href=${`/ui/${kind}`}>${t.list.clear}</a>`}>${t.list.nothingHint}<//>`;
  }
  return html`<${Empty} title=${t.list.empty(names.many)} action=${html`<a href=${`/ui/${kind}/new`}>${t.list.create(names.one)}</a>`}>${names.hint}<//>`;
}
