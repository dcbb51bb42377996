// One request: what was asked, where it went, what it cost, and what was said where that is kept.
import { html, useEffect, useState } from "../core/html.js";
import { get } from "../core/api.js";
import { bytes, duration, exact, label, moment, money, number } from "../core/format.js";
import { useInterval, useResource } from "../core/resource.js";
import { nameTab } from "../core/router.js";
import { Badge, Busy, CopyButton, Empty, Facts, Failure } from "../parts/bits.js";
import { EntityName } from "../parts/picker.js";
import { costsOf } from "./costs.js";
import { conversation } from "./conversation.js";
import { toneOf } from "./logs.js";
import { t } from "../strings.js";

export function View({ id }) {
  const found = useResource((signal) => get(`/logs/${encodeURIComponent(id)}`, {}, signal), [id]);
  const missing = found.error?.status === 404;
  useEffect(() => nameTab(id), [id]);
  // A request may be looked for before its record has been delivered.
  useInterval(found.reload, 1, missing);
  if (missing) return html`<${Busy} /><${Empty} title=${t.log.missing}>${t.log.missingHint}<//>`;
  if (found.error) return html`<${Failure} error=${found.error} retry=${found.reload} />`;
  if (!found.data) return html`<${Busy} />`;
  const { log, payload, payloadError } = found.data;
  return html`
    <header>
      <div class="stack title">
        <a class="hint" href="/ui/logs">${t.nav.logs}</a>
        <h1>${exact(log.requestedModel) ?? log.endpoint} <${Badge} tone=${toneOf(log)}>${log.outcome}<//></h1>
        <span class="row"><code>${log.requestId}</code><${CopyButton} text=${log.requestId} /></span>
      </div>
    </header>
    <div class="stack">
      <${Summary} log=${log} />
      <${Timeline} log=${log} />
      <div class="grid-2"><${Meters} log=${log} /><${Context} log=${log} /></div>
      ${payload && html`<${Payload} payload=${payload} id=${log.requestId} />`}
      ${!payload && (payloadError ? html`<p class="notice warn">${payloadError}</p>` : html`<p class="hint">${t.log.noPayload}</p>`)}
    </div>
  `;
}

function Summary({ log }) {
  const tiles = [
    [t.log.status, log.status || "–"],
    [t.log.duration, duration(log.durationMs)],
    [t.log.ttft, duration(log.ttftMs ?? log.ttfbMs)],
    [t.log.overhead, duration(log.overheadMs)],
    [t.log.tokens, number((log.tokens.input ?? 0) + (log.tokens.output ?? 0))],
    [t.log.cost, log.unpriced ? t.logs.unpriced : money(log.costNanos, log.currency ?? "USD")],
  ];
  return html`<div class="tiles">
    ${tiles.map(([name, value]) => html`<div class="tile" key=${name}><span class="hint">${name}</span><strong>${value}</strong></div>`)}
  </div>`;
}

/** The attempts as bars along the time that the request took. */
function Timeline({ log }) {
  if (!log.attempts.length) return log.errorCode ? html`<p class="notice bad">${log.errorCode}</p>` : null;
  const whole = Math.max(log.durationMs, 0.001);
  let before = Math.max(0, whole - log.attempts.reduce((sum, one) => sum + one.durationMs, 0));
  before = Math.min(before, log.overheadMs ?? 0);
  return html`<section class="box stack">
    <h2>${t.log.attempts}</h2>
    ${log.attempts.map((one, index) => {
      const left = (before / whole) * 100;
      before += one.durationMs;
      const width = Math.max(0.6, Math.min(100 - left, (one.durationMs / whole) * 100));
      const place = (element) => {
        if (!element) return;
        element.style.marginLeft = `${left}%`;
        element.style.width = `${width}%`;
      };
      return html`<div class="attempt" key=${index}>
        <span><${EntityName} plural="hosts" id=${one.hostId} />${one.hostKeyId && html` · <${EntityName} plural="host-keys" id=${one.hostKeyId} />`}</span>
        <span class="track"><i class=${one.error ? "bad" : "good"} ref=${place}></i></span>
        <span class="figure">${duration(one.durationMs)}</span>
        <span>${one.error ? html`<${Badge} tone="bad">${one.status || ""} ${one.error}<//>` : html`<${Badge} tone="good">${one.status}<//>`}</span>
      </div>`;
    })}
  </section>`;
}

/** The price list that a request was reckoned by, as long as it is the same. */
async function pricingOf(log, signal) {
  if (!log.pricingId || log.costNanos === null) return null;
  const page = await get("/pricings", { id: log.pricingId, limit: 1 }, signal);
  const pricing = page.items[0];
  return pricing?.metadata.version === log.pricingVersion ? pricing.spec : null;
}

function Meters({ log }) {
  const all = [...Object.entries(log.tokens).map(([name, count]) => [`tokens.${name}`, count]), ...Object.entries(log.units)];
  const rows = all.filter(([, count]) => count);
  const pricing = useResource((signal) => pricingOf(log, signal), [log.requestId]);
  const costs = pricing.data ? costsOf(log, rows, pricing.data) : null;
  const figure = (name, count) => (costs?.has(name) ? `${number(count)} · ${money(costs.get(name), log.currency)}` : number(count));
  return html`<section class="box stack">
    <h2>${t.log.meters}</h2>
    ${rows.length ? html`<${Facts} items=${rows.map(([name, count]) => [html`<code>${name}</code>`, figure(name, count)])} />` : html`<p class="hint">${t.log.noUsage}</p>`}
    <${Facts} items=${[
      [t.log.source, log.usageSource],
      log.pricingId && [t.log.pricing, html`<${EntityName} plural="pricings" id=${log.pricingId} />${log.pricingVersion && ` · ${t.log.version(log.pricingVersion)}`}`],
      log.tier && [t.log.tier, log.tier],
      log.finishReason && [t.log.finish, log.finishReason],
    ]} />
  </section>`;
}

function Context({ log }) {
  return html`<section class="box stack">
    <h2>${t.log.context}</h2>
    <${Facts} items=${[
      [t.log.started, moment(log.startedAt)],
      [t.log.key, html`<${EntityName} plural="relay-keys" id=${log.relayKeyId} />`],
      [t.log.policy, html`<${EntityName} plural="policies" id=${log.policyId} />`],
      [t.log.model, html`<${EntityName} plural="models" id=${log.modelId} />`],
      log.upstreamModel && [t.log.answeredBy, html`<code>${exact(log.upstreamModel)}</code>`],
      [t.log.endpoint, `${log.mode}, ${log.endpoint}${log.streamed ? `, ${t.log.streamed}` : ""}`],
      log.upstreamWireFormat && log.upstreamWireFormat !== log.wireFormat && [t.log.translated, `${log.wireFormat} → ${log.upstreamWireFormat}`],
      [t.log.size, `${bytes(log.bytesIn)} / ${bytes(log.bytesOut)}`],
      [t.log.client, [log.clientIp, log.userAgent].filter(Boolean).join(", ")],
      log.clientRequestId && [t.log.clientId, html`<code>${log.clientRequestId}</code>`],
      Object.keys(log.tags).length > 0 && [t.log.tags, Object.entries(log.tags).map(([name, value]) => html`<${Badge}>${name}: ${value}<//> `)],
      log.guards?.length > 0 && [t.log.guards, log.guards.map((one) => html`<${GuardVisit} visit=${one} />`)],
      [t.log.instance, log.instance],
    ]} />
  </section>`;
}

const DEEDS = { allowed: "good", changed: "accent", refused: "bad", failed: "bad", unreadable: "warn" };

/** What one guard did, and whether it only would have. */
const GuardVisit = ({ visit }) => html`<div>
  ${visit.guard}, ${t.log.phase[visit.phase] ?? visit.phase}: <${Badge} tone=${DEEDS[visit.did] ?? ""}>${visit.did}<//>
  ${visit.dryRun && html` <${Badge}>${t.log.dryRun}<//>`} <span class="hint">${duration(visit.durationMs)}</span>
</div>`;

/** The bytes of a body: what is no UTF-8 comes in base64. */
function bytesOf(payload, side) {
  const text = payload[side] ?? "";
  if (payload[`${side}Encoding`] !== "base64") return new TextEncoder().encode(text);
  return Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function Payload({ payload, id }) {
  const [mode, setMode] = useState("conversation");
  const turns = conversation(payload);
  const shown = turns.length && mode === "conversation";
  return html`<section class="stack">
    <div class="head">
      <h2>${t.log.payload}</h2>
      ${turns.length > 0 &&
      html`<div class="row" role="group" aria-label=${t.log.payload}>
        <button type="button" aria-pressed=${mode === "conversation"} onClick=${() => setMode("conversation")}>${t.log.conversation}</button>
        <button type="button" aria-pressed=${mode === "text"} onClick=${() => setMode("text")}>${t.log.text}</button>
      </div>`}
    </div>
    ${shown
      ? turns.map((turn, index) => html`<article class=${`turn ${turn.role}`} key=${index}><h3>${turn.role}</h3><pre>${turn.text}</pre></article>`)
      : ["request", "response"].map((side) => html`<${Body} key=${side} ...${{ side, payload, id }} />`)}
  </section>`;
}

function Body({ side, payload, id }) {
  const binary = payload[`${side}Encoding`] === "base64";
  const text = payload[side] ?? "";
  const download = () => {
    const url = URL.createObjectURL(new Blob([bytesOf(payload, side)], { type: "application/octet-stream" }));
    const link = Object.assign(document.createElement("a"), { href: url, download: `${id}-${side}.${binary ? "bin" : "txt"}` });
    link.click();
    URL.revokeObjectURL(url);
  };
  const headers = payload[`${side}Headers`] ?? [];
  return html`<section class="box stack">
    <div class="head">
      <h3>${label(side)} <span class="hint">${payload[`${side}ContentType`]} ${bytes(payload[`${side}Bytes`] ?? text.length)}</span></h3>
      ${payload[`${side}Truncated`] && html`<${Badge} tone="warn">${t.log.truncated}<//>`}
      ${binary && html`<${Badge}>${t.log.binary}<//>`}
      ${text && html`<${CopyButton} text=${text} />`}
      <button type="button" disabled=${!text} onClick=${download}>${t.log.download}</button>
    </div>
    ${headers.length > 0 && html`<${Facts} items=${headers.map(([name, value]) => [html`<code>${name}</code>`, value])} />`}
    ${payload[`${side}Sha256`] && html`<p class="hint">${t.log.digest} <code>${payload[`${side}Sha256`]}</code></p>`}
    ${text ? html`<pre class="body" tabindex="0">${pretty(text)}</pre>` : html`<p class="hint">${t.log.empty}</p>`}
  </section>`;
}
