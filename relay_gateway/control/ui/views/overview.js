// What an operator looks at in the morning: how much, how well, how fast, how dear, and what is ill.
import { html, useEffect, useMemo, useState } from "../core/html.js";
import { get } from "../core/api.js";
import { compact, duration, label, moment, money, number } from "../core/format.js";
import { entityById } from "../core/names.js";
import { useInterval, useResource } from "../core/resource.js";
import { setQuery, useLocation } from "../core/router.js";
import { Badge, Busy, Empty, Failure } from "../parts/bits.js";
import { Chart, loadCharts } from "../parts/chart.js";
import { EntityName } from "../parts/picker.js";
import { Health } from "./health.js";
import { Instance } from "./instance.js";
import { t } from "../strings.js";

const PERIODS = { "1h": [3600, "minute"], "24h": [86_400, "hour"], "7d": [604_800, "hour"], "30d": [2_592_000, "day"] };
const SPLITS = ["model", "provider", "relayKey", "policy", "host", "endpoint", "outcome"];
const PLURALS = { model: "models", provider: "providers", relayKey: "relay-keys", policy: "policies", host: "hosts" };
const SCOPES = { "relay-key": "relay-keys", policy: "policies", model: "models" };
const FIGURES = {
  requests: { value: (row) => row.requests, format: compact },
  errors: { value: (row) => row.errors, format: compact },
  tokens: { value: (row) => (row.tokens.input ?? 0) + (row.tokens.output ?? 0), format: compact },
  cost: { value: (row) => costOf(row), format: (value) => money(value) },
  latency: { value: (row) => row.durationMs.p95 ?? null, format: duration },
  ttft: { value: (row) => row.ttftMs.p95 ?? null, format: duration },
};

const costOf = (row) => Object.values(row.costNanos).reduce((sum, one) => sum + one, 0);
const currencies = (row) => Object.entries(row.costNanos).map(([currency, nanos]) => money(nanos, currency)).join(" + ") || money(0);

/** The beginning of a period that ends now, at a whole minute so that it can be asked for again. */
function beginning(period) {
  return new Date(Math.floor(Date.now() / 60_000) * 60_000 - PERIODS[period][0] * 1000).toISOString();
}

/** How many groups a chart has lines for; all others have one together. */
const LINES = 8;

/** What all other groups are called among groups. */
const REST = "\u0000rest";

/** Figures over time of the largest groups, and of all others together. */
const timeseries = (period, split, signal) =>
  get("/usage/timeseries", { from: beginning(period), interval: PERIODS[period][1], groupBy: split, top: LINES }, signal);

/** All that the view shows of usage. What belongs to another split than the chosen one is left out. */
function useUsage(period, split) {
  const from = () => beginning(period);
  const whole = useResource((signal) => get("/usage/summary", { from: from() }, signal), [period]);
  const parts = useResource(
    async (signal) => ({ split, rows: (await get("/usage/summary", { from: from(), groupBy: split }, signal)).items }),
    [period, split],
  );
  const rows = parts.data?.split === split ? parts.data.rows : null;
  const series = useResource(
    async (signal) => ({ split, points: (await timeseries(period, split, signal)).items }),
    [period, split],
  );
  const points = series.data?.split === split ? series.data.points : null;
  useEffect(() => void loadCharts(), []);
  return { whole, rows, points, error: whole.error ?? parts.error, reload: () => (whole.reload(), parts.reload(), series.reload()) };
}

export function View() {
  const { query } = useLocation();
  const period = query.get("period") in PERIODS ? query.get("period") : "24h";
  const split = query.get("split") ?? "model";
  const figure = query.get("figure") in FIGURES ? query.get("figure") : "requests";
  const { whole, rows, points, error, reload } = useUsage(period, split);
  useInterval(reload, period === "1h" ? 10 : 60);
  const empty = whole.data && !whole.data.items.some((row) => row.requests);
  return html`
    <header>
      <h1>${t.nav.overview}</h1>
      <select aria-label=${t.overview.period} value=${period} onChange=${(event) => setQuery({ period: event.target.value })}>
        ${Object.keys(PERIODS).map((one) => html`<option value=${one}>${t.logs.last(one)}</option>`)}
      </select>
      <${Split} split=${split} />
    </header>
    <${Busy} active=${!error && !(empty || (whole.data && rows))} />
    ${error && html`<${Failure} error=${error} retry=${reload} />`}
    <div class="stack">
      ${whole.data && !empty && html`<${Tiles} row=${whole.data.items[0]} figure=${figure} />`}
      ${empty && html`<${Empty} title=${t.overview.empty} action=${html`<a href="/ui/first-steps">${t.nav.firstRun}</a>`}>${t.overview.emptyHint}<//>`}
      ${!empty && points?.length > 0 && html`<${Over} points=${points} period=${period} split=${split} figure=${figure} />`}
      ${!empty && rows && html`<${Parts} rows=${rows} split=${split} />`}
      <${Budgets} />
      <${Health} />
      <${Instance} />
    </div>
  `;
}

function Split({ split }) {
  const tagged = split.startsWith("tag:");
  const [asking, setAsking] = useState(false);
  const choose = (event) => {
    setAsking(event.target.value === "tag:");
    if (event.target.value !== "tag:") setQuery({ split: event.target.value });
  };
  const name = (event) => {
    event.preventDefault();
    const tag = new FormData(event.target).get("tag").trim();
    setAsking(false);
    if (tag) setQuery({ split: `tag:${tag}` });
  };
  return html`${asking && html`<form onSubmit=${name}><input name="tag" autofocus aria-label=${t.overview.whichTag} placeholder=${t.overview.whichTag} /></form>`}
  <select aria-label=${t.overview.split} value=${asking ? "tag:" : split} onChange=${choose}>
    ${SPLITS.map((one) => html`<option value=${one}>${t.overview.by(label(one).toLowerCase())}</option>`)}
    ${tagged && html`<option value=${split}>${t.overview.by(split)}</option>`}
    <option value="tag:">${t.overview.byTag}</option>
  </select>`;
}

function Tiles({ row, figure }) {
  const rate = row.requests ? (100 * row.errors) / row.requests : 0;
  const tiles = {
    requests: number(row.requests),
    errors: `${number(row.errors)} (${rate.toFixed(1)} %)`,
    tokens: compact(FIGURES.tokens.value(row)),
    cost: currencies(row),
    latency: duration(row.durationMs.p95),
    ttft: duration(row.ttftMs.p95),
  };
  return html`<div class="tiles" role="group" aria-label=${t.overview.figures}>
    ${Object.entries(tiles).map(
      ([name, value]) => html`<button type="button" class="tile" key=${name} aria-pressed=${figure === name} onClick=${() => setQuery({ figure: name })}>
        <span class="hint">${t.overview.figure[name]}</span><strong>${value}</strong>
      </button>`,
    )}
  </div>
  ${row.unpriced > 0 && html`<p class="notice warn">${t.overview.unpriced(number(row.unpriced))} <a href="/ui/logs?unpriced=true">${t.nav.logs}</a></p>`}`;
}

const STEPS = { minute: 60_000, hour: 3_600_000, day: 86_400_000 };

/** The beginnings of all steps of a period, those included in which nothing happened. */
function steps(period, given) {
  const step = STEPS[PERIODS[period][1]];
  const known = new Map(given.map((one) => [Date.parse(one), one]));
  const found = [];
  for (let at = Math.ceil(Date.parse(beginning(period)) / step) * step; at <= Date.now(); at += step) {
    found.push(known.get(at) ?? new Date(at).toISOString());
  }
  return found;
}

const groupOf = ({ row, other }, split) => (other ? REST : row.group[split] ?? "");

/** The figure over time, a line for each of the largest groups and one for the others. */
function Over({ points, period, split, figure }) {
  const chosen = FIGURES[figure];
  const key = JSON.stringify(points.length) + period + figure + split + (points.at(-1)?.start ?? "") + (points.at(-1)?.row.requests ?? "");
  const { times, series } = useMemo(() => {
    const totals = new Map();
    for (const point of points) {
      const name = groupOf(point, split);
      totals.set(name, (totals.get(name) ?? 0) + point.row.requests);
    }
    const rest = totals.delete(REST) ? [REST] : [];
    const names = [...totals.entries()].sort((one, other) => other[1] - one[1]).slice(0, LINES).map(([name]) => name);
    const starts = steps(period, points.map((one) => one.start));
    const place = new Map(points.map((one) => [`${one.start} ${groupOf(one, split)}`, one.row]));
    return {
      times: starts.map((one) => Date.parse(one) / 1000),
      series: [...names, ...rest].map((name) => ({
        id: name,
        label: name === REST ? t.overview.others : name || t.none,
        muted: name === REST,
        values: starts.map((start) => {
          const row = place.get(`${start} ${name}`);
          return row ? chosen.value(row) : figure === "latency" || figure === "ttft" ? null : 0;
        }),
      })),
    };
  }, [key]);
  const named = useNames(split, series);
  return html`<section class="box"><${Chart} title=${t.overview.figure[figure]} times=${times} series=${named} format=${chosen.format} /></section>`;
}

/** Lines of a chart with names instead of ids. */
function useNames(split, series) {
  const plural = PLURALS[split];
  const ids = series.map((one) => one.id).join(",");
  const found = useResource(
    () => (plural ? Promise.all(series.map((one) => (one.id && one.id !== REST ? nameOf(plural, one.id) : one.label))) : Promise.resolve(null)),
    [plural, ids],
  );
  return useMemo(
    () => series.map((one, index) => ({ ...one, label: found.data?.[index] ?? one.label })),
    [series, found.data],
  );
}

async function nameOf(plural, id) {
  const entity = await entityById(plural, id).catch(() => null);
  return entity?.metadata.displayName ?? id;
}

function Parts({ rows, split }) {
  const plural = PLURALS[split];
  const name = (row) => {
    const value = row.group[split];
    if (!value) return html`<span class="hint">${t.none}</span>`;
    return plural ? html`<${EntityName} plural=${plural} id=${value} />` : value;
  };
  const filter = split.startsWith("tag:") ? null : PLURALS[split] ? `${split}Id` : split;
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${t.overview.split}>
    <table class="table">
      <thead><tr>${t.overview.columns.map((title, index) => html`<th scope="col" class=${index ? "figure" : ""}>${index ? title : label(split)}</th>`)}</tr></thead>
      <tbody>
        ${rows.slice(0, 50).map(
          (row) => html`<tr key=${String(row.group[split])}>
            <td>${name(row)}${filter && row.group[split] && html` <a class="hint" href=${`/ui/logs?${filter}=${encodeURIComponent(row.group[split])}`}>${t.nav.logs}</a>`}</td>
            <td class="figure">${number(row.requests)}</td>
            <td class="figure">${row.errors ? html`<${Badge} tone="bad">${number(row.errors)}<//>` : 0}</td>
            <td class="figure">${compact(FIGURES.tokens.value(row))}</td>
            <td class="figure">${currencies(row)}</td>
            <td class="figure">${duration(row.durationMs.p50)} / ${duration(row.durationMs.p95)}</td>
            <td class="figure">${duration(row.ttftMs.p50)} / ${duration(row.ttftMs.p95)}</td>
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

function Budgets() {
  const found = useResource((signal) => get("/usage/budgets", {}, signal), []);
  useInterval(found.reload, 30);
  const items = found.data?.items ?? [];
  if (!items.length) return null;
  return html`<section class="box stack">
    <h2>${t.overview.budgets}</h2>
    ${items.map((one) => html`<${Budget} key=${[one.policyId, one.scopeValue, one.window, one.currency].join()} found=${one} />`)}
  </section>`;
}

const STATES = { exceeded: "bad", near: "warn", ok: "good" };

function Budget({ found }) {
  const share = found.amountNanos ? found.spentNanos / found.amountNanos : 0;
  const plural = SCOPES[found.scope];
  const holder = !found.scopeValue ? "" : plural ? html`<${EntityName} plural=${plural} id=${found.scopeValue} />` : found.scopeValue;
  return html`<div class="budget">
    <span>
      <${EntityName} plural="policies" id=${found.policyId} />
      <span class="under hint">${t.overview.budgetOf[found.scope] ?? found.scope} ${found.scope !== "policy" && holder} · ${t.overview.window[found.window] ?? found.window}</span>
    </span>
    <meter min="0" max="1" low="0.8" high="0.999" optimum="0" value=${Math.min(1, share)} aria-label=${t.overview.spent}></meter>
    <span class="figure">${money(found.spentNanos, found.currency)} / ${money(found.amountNanos, found.currency)}${found.periodEnd && html`<span class="under hint" title=${moment(found.periodEnd)}>${t.overview.until(moment(found.periodEnd, { seconds: false }))}</span>`}</span>
    <${Badge} tone=${STATES[found.state] ?? ""}>${found.state} · ${Math.round(share * 100)} %<//>
  </div>`;
}
