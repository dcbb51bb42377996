// All gateways, and the one that answers: what its processes serve, and what still waits to be written.
import { html } from "../core/html.js";
import { bytes, duration, number } from "../core/format.js";
import { readMetrics } from "../core/metrics.js";
import { useInterval, useResource } from "../core/resource.js";
import { Badge, Facts } from "../parts/bits.js";
import { Instances } from "./instances.js";
import { t } from "../strings.js";

const EVERY_SECONDS = 10;
const sum = (samples = []) => samples.reduce((whole, one) => whole + one.value, 0);

/** Processes with the revision that each serves. */
function processes(metrics) {
  const of = (name, process) => metrics.get(name)?.find((one) => one.labels.process === process)?.value;
  return (metrics.get("relay_process_up") ?? []).map(({ labels: { process }, value }) => ({
    process,
    up: value === 1,
    revision: of("relay_snapshot_revision", process),
    behind: of("relay_snapshot_lag_revisions", process),
    age: of("relay_snapshot_age_seconds", process),
  }));
}

/** Sinks with what waits for each. */
function sinks(metrics) {
  const waiting = metrics.get("relay_usage_queue_records") ?? [];
  const of = (name, sink) => (metrics.get(name) ?? []).filter((one) => one.labels.sink === sink).map((one) => one.value);
  return waiting.map(({ labels: { sink }, value }) => ({
    sink,
    waiting: value,
    oldest: Math.max(0, ...of("relay_delivery_oldest_seconds", sink)),
    down: of("relay_delivery_sink_down", sink).some(Boolean),
  }));
}

const standing = ({ up, revision, behind, age }) =>
  !up
    ? html`<${Badge} tone="bad">${t.instance.silent}<//>`
    : revision === undefined
      ? t.instance.noCatalog
      : html`${t.health.revision(revision)}, ${behind ? html`<${Badge} tone="warn">${t.instance.behind(behind)}<//>` : t.instance.current(duration(age * 1000))}`;

const depth = ({ waiting, oldest, down }) =>
  html`${t.instance.waiting(number(waiting))}${waiting > 0 && oldest > 0 && `, ${t.instance.oldest(duration(oldest * 1000))}`} ${down && html`<${Badge} tone="bad">${t.instance.down}<//>`}`;

/** All gateways; of this one the revision of every process, and how much the spool holds for every sink. */
export function Instance() {
  const found = useResource(readMetrics, []);
  useInterval(found.reload, EVERY_SECONDS);
  if (!found.data) return html`<${Instances} />`;
  const lost = sum(found.data.get("relay_spool_lost_records_total")) + sum(found.data.get("relay_usage_dropped_records_total"));
  return html`<${Instances} />
  <section class="box stack" aria-label=${t.instance.title}>
    <h2>${t.instance.title}</h2>
    <${Facts} items=${[
      ...processes(found.data).map((one) => [one.process, standing(one)]),
      ...sinks(found.data).map((one) => [t.instance.sink(one.sink), depth(one)]),
      [t.instance.spool, bytes(sum(found.data.get("relay_spool_bytes")))],
      lost > 0 && [t.instance.lost, html`<${Badge} tone="bad">${number(lost)}<//>`],
    ]} />
  </section>`;
}
