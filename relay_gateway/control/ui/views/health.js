// What is unhealthy now: hosts left alone, benched keys, failing parts, plugins that are not there,
// gateways that lag or fell silent.
import { html } from "../core/html.js";
import { get } from "../core/api.js";
import { duration } from "../core/format.js";
import { useInterval, useResource } from "../core/resource.js";
import { Badge, Failure, State } from "../parts/bits.js";
import { complaintsOf, readInstances } from "./instances.js";
import { t } from "../strings.js";

async function readiness(signal) {
  const answer = await fetch("/readyz", { signal, headers: { accept: "application/json" } });
  return answer.json();
}

async function troubled(plural, signal) {
  const found = [];
  let cursor;
  do {
    const page = await get(`/${plural}`, { limit: 500, cursor }, signal);
    found.push(...page.items.filter((one) => one.status?.state && one.status.state !== "available"));
    cursor = page.nextCursor;
  } while (cursor);
  return found;
}

async function load(signal) {
  const [ready, hosts, keys, plugins, instances] = await Promise.all([
    readiness(signal),
    troubled("hosts", signal),
    troubled("host-keys", signal),
    get("/plugins", {}, signal),
    readInstances(signal),
  ]);
  const left = [...hosts.map((one) => ({ ...one, plural: "hosts" })), ...keys.map((one) => ({ ...one, plural: "host-keys" }))];
  const own = Object.keys(ready.degraded ?? {});
  return {
    ready,
    left,
    plugins: plugins.items.filter((one) => one.error && one.state !== "registered"),
    complaints: instances.flatMap((one) => complaintsOf(one, one.thisGateway ? own : [])),
  };
}

/** Everything that does not work right now, or that all does. */
export function Health() {
  const found = useResource(load, []);
  useInterval(found.reload, 5);
  if (found.error && !found.data) return html`<${Failure} error=${found.error} retry=${found.reload} />`;
  if (!found.data) return null;
  const { ready, left, plugins, complaints } = found.data;
  const degraded = Object.entries(ready.degraded ?? {});
  const well = !found.error && ready.ready && !degraded.length && !left.length && !plugins.length && !complaints.length;
  return html`<section class="box stack" aria-label=${t.health.title}>
    <div class="row spread"><h2>${t.health.title}</h2><span class="hint">${t.health.revision(ready.revision ?? "–")}</span></div>
    ${found.error && html`<${Failure} error=${found.error} retry=${found.reload} />`}
    ${well && html`<p class="notice good">${t.health.well}</p>`}
    ${!ready.ready && html`<p class="notice bad">${ready.draining ? t.health.draining : t.health.notReady}</p>`}
    ${degraded.map(([part, reason]) => html`<p class="notice warn" key=${part}><strong>${part}</strong> ${reason}</p>`)}
    ${complaints.map((one) => html`<p class=${`notice ${one.tone}`} key=${one.key}><strong>${one.name}</strong> ${one.text}</p>`)}
    ${plugins.map((one) => html`<p class="notice bad" key=${one.kind + one.name}><strong>${one.kind} ${one.name}</strong> ${one.error}</p>`)}
    ${left.map(
      (one) => html`<div class="row" key=${one.metadata.id}>
        <a href=${`/ui/${one.plural}/${one.metadata.id}`}>${one.metadata.displayName}</a>
        <${State} value=${one.status.state} /><span>${one.status.reason ?? ""}</span>
        ${one.status.secondsLeft && html`<${Badge}>${t.health.left(duration(one.status.secondsLeft * 1000))}<//>`}
      </div>`,
    )}
  </section>`;
}
