// Every process of every gateway on the database: what it serves, how far behind, when last heard of.
import { html } from "../core/html.js";
import { get } from "../core/api.js";
import { ago, duration, moment, number } from "../core/format.js";
import { useInterval, useResource } from "../core/resource.js";
import { Badge, Failure } from "../parts/bits.js";
import { t } from "../strings.js";

const EVERY_SECONDS = 5;
const TONES = { ready: "good", degraded: "warn", draining: "warn", "not-ready": "bad" };

/** What the API lists. */
export const readInstances = async (signal) => (await get("/instances", {}, signal)).items;

/** A gateway's process as people name it. */
const nameOf = (one) => (one.process === "gateway" ? one.gateway : `${one.gateway} ${one.process}`);

/** What is wrong with a process, as `{ key, name, tone, text }`; `told` are parts of which it is known already. */
export function complaintsOf(one, told = []) {
  const found = [];
  const add = (tone, text) => found.push({ key: [one.gatewayId, one.process, text].join(), name: nameOf(one), tone, text });
  if (one.silent) {
    add("bad", t.instances.silent(moment(one.lastSeenAt)));
    return found;
  }
  if (one.lagging) add("bad", t.instances.lagging(number(one.lagRevisions), duration(one.lagSeconds * 1000)));
  if (one.state === "not-ready") add("bad", t.instances.state["not-ready"]);
  for (const [part, reason] of Object.entries(one.degraded)) {
    if (!told.includes(part)) add("warn", `${part}: ${reason}`);
  }
  return found;
}

/** Silent, lagging, or what the process says of itself. What it said before it fell silent says nothing. */
function Standing({ one }) {
  if (one.silent) return html`<${Badge} tone="bad">${t.instances.silentShort}<//>`;
  return html`<${Badge} tone=${one.lagging ? "" : TONES[one.state] ?? ""}>${t.instances.state[one.state] ?? one.state}<//>
    ${one.lagging && html` <${Badge} tone="bad">${t.instances.laggingShort}<//>`}
    ${Object.entries(one.degraded).map(([part, reason]) => html`<span class="under">${part}: ${reason}</span>`)}`;
}

const behind = ({ revision, lagRevisions, lagSeconds }) =>
  revision === null ? "–" : lagRevisions ? t.instances.behind(number(lagRevisions), duration(lagSeconds * 1000)) : t.instances.current;

const heard = ({ silent, lastSeenAt, seenSecondsAgo }) =>
  silent ? moment(lastSeenAt) : seenSecondsAgo < 1 ? t.instances.now : t.instances.ago(duration(seenSecondsAgo * 1000));

function Row({ one }) {
  return html`<tr>
    <td><strong>${nameOf(one)}</strong><span class="under">${one.instance}${one.thisGateway && ` · ${t.instances.own}`}</span></td>
    <td><${Standing} one=${one} /></td>
    <td class="figure">${number(one.revision)}<span class="under">${behind(one)}</span></td>
    <td title=${moment(one.lastSeenAt)}>${heard(one)}</td>
    <td title=${moment(one.startedAt)}>${one.version}<span class="under">${t.instances.started(ago(one.startedAt))}</span></td>
  </tr>`;
}

/** The table of them, kept up to date. */
export function Instances() {
  const found = useResource(readInstances, []);
  useInterval(found.reload, EVERY_SECONDS);
  if (found.error && !found.data) return html`<${Failure} error=${found.error} retry=${found.reload} />`;
  if (!found.data?.length) return null;
  return html`<section class="stack" aria-label=${t.instances.title}>
    <h2>${t.instances.title}</h2>
    <div class="scroll" tabindex="0" role="region" aria-label=${t.instances.table}>
      <table class="table">
        <thead><tr>${t.instances.columns.map((title, index) => html`<th scope="col" class=${index === 2 ? "figure" : ""}>${title}</th>`)}</tr></thead>
        <tbody>${found.data.map((one) => html`<${Row} key=${one.gatewayId + one.process} one=${one} />`)}</tbody>
      </table>
    </div>
  </section>`;
}
