// Requests as they come, and those of before: every filter is in the address bar.
import { html, useEffect, useMemo, useRef, useState } from "../core/html.js";
import { get, onReachable } from "../core/api.js";
import { duration, exact, fieldOf, label, moment, momentOf, money, number, timeOfLine } from "../core/format.js";
import { useInterval } from "../core/resource.js";
import { setQuery, useLocation } from "../core/router.js";
import { Badge, Busy, Empty, Failure } from "../parts/bits.js";
import { EntityName, Picker } from "../parts/picker.js";
import { QueryField } from "../parts/query_field.js";
import { VirtualList } from "../parts/virtual_list.js";
import { t } from "../strings.js";

const PAGE = 100;
const LARGEST_PAGE = 1000;
const ROW = 38;
const KINDS = { relayKeyId: "relay-keys", modelId: "models", hostId: "hosts", policyId: "policies", providerId: "providers", hostKeyId: "host-keys" };
const CHOICES = {
  outcome: ["ok", "upstream_error", "rejected", "cancelled", "aborted", "timeout"],
  mode: ["gateway", "proxy"],
  streamed: ["true", "false"],
  unpriced: ["true", "false"],
  usageSource: ["upstream", "estimated", "none"],
};
const LINES = ["status", "endpoint", "requestedModel", "upstreamModel", "errorCode", "wireFormat", "clientRequestId", "instance", "tag"];
const SINCE = ["15m", "1h", "24h", "7d", "30d"];

/** Tone of an outcome. */
export const toneOf = (record) => (record.outcome === "ok" ? "good" : record.outcome === "cancelled" ? "warn" : "bad");

export function View() {
  const { query } = useLocation();
  const key = filtersOf(query).toString();
  const wanted = useMemo(() => parameters(query), [key]);
  const live = query.get("live") === "1";
  const { rows, error, loading, ended, more, refresh, restart } = useLog(wanted, key);
  useInterval(refresh, 1, live);
  return html`
    <header>
      <h1>${t.nav.logs}</h1>
      <label class="row"><input type="checkbox" checked=${live} onChange=${() => setQuery({ live: live ? null : "1" })} />${t.logs.live}</label>
    </header>
    <${Filters} query=${query} />
    <${Busy} active=${loading} />
    ${error && html`<${Failure} error=${error} retry=${restart} />`}
    ${rows.length > 0 &&
    html`<div class="log-head" aria-hidden="true">${t.logs.columns.map((title) => html`<span>${title}</span>`)}</div>
      <${VirtualList} key=${key} label=${t.nav.logs} rows=${rows} height=${ROW} rowKey=${(row) => row.requestId} onEnd=${ended || error ? null : more} draw=${(row, index) => html`<${Line} key=${row.requestId} row=${row} index=${index} />`} />`}
    ${!loading && !error && !rows.length && html`<${Empty} title=${t.list.nothing} action=${key ? html`<a href="/ui/logs">${t.list.clear}</a>` : html`<a href="/ui/first-steps">${t.nav.firstRun}</a>`}>${key ? t.list.nothingHint : t.logs.emptyHint}<//>`}
  `;
}

/** What the address says besides whether the log is followed. */
function filtersOf(query) {
  const filters = new URLSearchParams(query);
  filters.delete("live");
  return filters;
}

/** What the address says, as parameters of `GET /logs`. */
function parameters(query) {
  const wanted = {};
  for (const [name, value] of filtersOf(query).entries()) {
    wanted[name] = name in wanted ? [wanted[name], value].flat() : value;
  }
  return wanted;
}

/** What a line shows of a record: a list of a million must fit into a browser. */
function lineOf(record) {
  const { requestId, startedAt, status, outcome, requestedModel, endpoint, errorCode, relayKeyId, durationMs, unpriced } = record;
  const tokens = (record.tokens.input ?? 0) + (record.tokens.output ?? 0);
  const { costNanos, currency } = record;
  return { requestId, startedAt, status, outcome, requestedModel, endpoint, errorCode, relayKeyId, durationMs, unpriced, tokens, costNanos, currency };
}

/** The records that match, newest first, with more of them at both ends. */
function useLog(wanted, key) {
  const [state, setState] = useState({ rows: [], cursor: null, error: null, loading: true, ended: false });
  const busy = useRef(null);
  const load = async (query, merge) => {
    if (busy.current) return;
    const controller = (busy.current = new AbortController());
    try {
      const page = await get("/logs", { ...wanted, limit: PAGE, ...query }, controller.signal);
      if (busy.current === controller) setState((old) => merge(old, { ...page, items: page.items.map(lineOf) }));
    } catch (error) {
      if (error.name !== "AbortError" && busy.current === controller) setState((old) => ({ ...old, error, loading: false }));
    } finally {
      if (busy.current === controller) busy.current = null;
    }
  };
  const first = (_, page) => ({ rows: page.items, cursor: page.nextCursor, error: null, loading: false, ended: !page.nextCursor });
  const restart = () => {
    busy.current?.abort();
    busy.current = null;
    setState((old) => ({ ...old, loading: true }));
    load({}, first);
  };
  useEffect(() => {
    restart();
    return () => busy.current?.abort();
  }, [key]);
  const more = () => {
    if (!state.cursor) return;
    // Who has come far goes on in larger steps.
    const limit = Math.min(LARGEST_PAGE, Math.max(PAGE, Math.floor(state.rows.length / 4)));
    load({ cursor: state.cursor, limit }, (old, page) => ({ ...old, rows: [...old.rows, ...page.items], cursor: page.nextCursor, ended: !page.nextCursor, error: null }));
  };
  const refresh = () =>
    load({}, (old, page) => {
      const known = new Set(old.rows.slice(0, 2 * PAGE).map((row) => row.requestId));
      const added = page.items.filter((row) => !known.has(row.requestId));
      // More than a page came since: what is between is not known, so the list begins anew.
      if (added.length === page.items.length && old.rows.length) return first(old, page);
      return added.length ? { ...old, rows: [...added, ...old.rows], error: null } : { ...old, error: null };
    });
  const unanswered = state.error?.status === 0;
  useEffect(() => (unanswered ? onReachable((now) => now && restart()) : undefined), [unanswered, key]);
  return { ...state, more, refresh, restart };
}

function Line({ row, index }) {
  return html`<div class="log-line" role="row" aria-rowindex=${index + 1}>
    <span role="gridcell" title=${moment(row.startedAt)}><a data-row href=${`/ui/logs/${row.requestId}`}>${timeOfLine(row.startedAt)}</a></span>
    <span role="gridcell"><${Badge} tone=${toneOf(row)}>${row.status || row.outcome}<//></span>
    <span role="gridcell" class="grow">${exact(row.requestedModel) ?? row.endpoint} <span class="hint">${row.errorCode ?? row.endpoint}</span></span>
    <span role="gridcell"><${EntityName} plural="relay-keys" id=${row.relayKeyId} link=${false} /></span>
    <span role="gridcell" class="figure">${number(row.tokens)}</span>
    <span role="gridcell" class="figure">${row.unpriced ? t.logs.unpriced : money(row.costNanos, row.currency ?? "USD")}</span>
    <span role="gridcell" class="figure">${duration(row.durationMs)}</span>
  </div>`;
}

function Filters({ query }) {
  const [open, setOpen] = useState(false);
  const names = [...query.keys()].filter((name) => !["q", "live", "since"].includes(name));
  return html`
    <div class="toolbar" role="search">
      <${QueryField} type="search" data-search name="q" value=${query.get("q") ?? ""} aria-label=${t.logs.search} placeholder=${t.logs.search} />
      <select aria-label=${t.logs.since} value=${query.get("since") ?? ""} onChange=${(event) => setQuery({ since: event.target.value, from: null, to: null })}>
        <option value="">${t.logs.always}</option>
        ${SINCE.map((one) => html`<option value=${one}>${t.logs.last(one)}</option>`)}
      </select>
      <button type="button" aria-expanded=${open} onClick=${() => setOpen(!open)}>${t.list.filters}${names.length ? ` (${names.length})` : ""}</button>
      ${names.map((name) => html`<span class="chip" key=${name}>${label(name)}: <${FilterValue} name=${name} value=${query.get(name)} /><button type="button" aria-label=${`${t.remove} ${label(name)}`} onClick=${() => setQuery({ [name]: null })}>×</button></span>`)}
    </div>
    ${open && html`<${FilterForm} query=${query} />`}
  `;
}

const FilterValue = ({ name, value }) =>
  name in KINDS ? html`<${EntityName} plural=${KINDS[name]} id=${value} link=${false} />` : ["from", "to"].includes(name) ? moment(value) : value;

function FilterForm({ query }) {
  const set = (name) => (value) => setQuery({ [name]: value });
  return html`<div class="box filters">
    ${Object.entries(KINDS).map(
      ([name, plural]) => html`<div class="field" key=${name}><label for=${`f-${name}`}>${label(name)}</label><${Picker} id=${`f-${name}`} plural=${plural} value=${query.get(name)} onChange=${set(name)} /></div>`,
    )}
    ${Object.entries(CHOICES).map(
      ([name, choices]) => html`<div class="field" key=${name}>
        <label for=${`f-${name}`}>${label(name)}</label>
        <select id=${`f-${name}`} value=${query.get(name) ?? ""} onChange=${(event) => set(name)(event.target.value)}>
          <option value="">${t.list.any}</option>
          ${choices.map((one) => html`<option value=${one}>${one}</option>`)}
        </select>
      </div>`,
    )}
    ${LINES.map((name) => html`<div class="field" key=${name}>
        <label for=${`f-${name}`}>${label(name)}</label>
        <${QueryField} id=${`f-${name}`} placeholder=${name === "tag" ? "team:search" : ""} name=${name} value=${query.get(name) ?? ""} />
      </div>`)}
    ${["from", "to"].map(
      (name) => html`<div class="field" key=${name}>
        <label for=${`f-${name}`}>${t.logs[name]}</label>
        <input id=${`f-${name}`} type="datetime-local" value=${fieldOf(query.get(name))} onInput=${(event) => setQuery({ [name]: momentOf(event.target.value), since: null })} />
      </div>`,
    )}
  </div>`;
}
