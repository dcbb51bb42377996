// Why a request goes where it goes, or is refused; and who may use a model.
import { html, useState } from "../core/html.js";
import { get } from "../core/api.js";
import { duration } from "../core/format.js";
import { useResource } from "../core/resource.js";
import { setQuery, useLocation } from "../core/router.js";
import { Badge, Busy, Empty, Failure, State } from "../parts/bits.js";
import { Picker } from "../parts/picker.js";
import { t } from "../strings.js";

export function View() {
  const { query } = useLocation();
  const asked = Object.fromEntries(query.entries());
  const found = useResource(
    (signal) => (asked.model ? get("/catalog/resolve", asked, signal) : Promise.resolve(null)),
    [query.toString()],
  );
  return html`
    <header><h1>${t.nav.explain}</h1></header>
    <p class="hint">${t.explain.hint}</p>
    <${Question} key=${query.toString()} asked=${asked} />
    <${Busy} active=${found.loading} />
    ${found.error && html`<${Failure} error=${found.error} retry=${found.reload} />`}
    ${!asked.model && html`<${Empty} title=${t.explain.empty}>${t.explain.emptyHint}<//>`}
    ${found.data?.deprecated && html`<p class="notice warn">${t.explain.deprecated} <code>${JSON.stringify(found.data.deprecated)}</code></p>`}
    ${found.data?.explanation && html`<${Explanation} found=${found.data.explanation} />`}
    ${found.data?.users && html`<${Users} found=${found.data.users} />`}
  `;
}

function Question({ asked }) {
  const [model, setModel] = useState(asked.model ?? "");
  const [endpoint, setEndpoint] = useState(asked.endpoint ?? "");
  const [host, setHost] = useState(asked.host ?? "");
  const [key, setKey] = useState(asked.relayKeyId ?? null);
  const submit = (event) => {
    event.preventDefault();
    setQuery({ model: model.trim(), relayKeyId: key, endpoint: endpoint.trim(), host: host.trim() }, { replace: false });
  };
  return html`<form class="box question" onSubmit=${submit}>
    <div class="field">
      <label for="ask-model">${t.explain.model}</label>
      <input id="ask-model" data-search required spellcheck=${false} value=${model} onInput=${(event) => setModel(event.target.value)} />
    </div>
    <div class="field">
      <label for="ask-key">${t.explain.key}</label>
      <${Picker} id="ask-key" plural="relay-keys" value=${key} onChange=${setKey} />
    </div>
    <div class="field">
      <label for="ask-endpoint">${t.explain.endpoint}</label>
      <input id="ask-endpoint" placeholder="chat.completions" value=${endpoint} onInput=${(event) => setEndpoint(event.target.value)} />
    </div>
    <div class="field">
      <label for="ask-host">${t.explain.host}</label>
      <input id="ask-host" value=${host} onInput=${(event) => setHost(event.target.value)} />
    </div>
    <button type="submit" class="primary">${t.explain.ask}</button>
  </form>`;
}

function Explanation({ found }) {
  const routed = found.outcome.verdict === "routed";
  return html`<div class="stack">
    <p class=${`notice ${routed ? "good" : "bad"}`} role="status">
      ${found.outcome.status ? html`<strong>${found.outcome.status} <code>${found.outcome.code}</code></strong>${" "}` : ""}${found.outcome.message}
    </p>
    <section class="box stack">
      <h2>${t.explain.steps}</h2>
      <ol class="steps">
        ${found.steps.map(
          (step) => html`<li class=${step.ok ? "good" : "bad"} key=${step.step}>
            <span class="mark" aria-hidden="true">${step.ok ? "✓" : "✗"}</span>
            <strong>${t.explain.step[step.step] ?? step.step}</strong><span>${step.message}</span>
            <span class="visually-hidden">${step.ok ? t.yes : t.no}</span>
          </li>`,
        )}
      </ol>
    </section>
    ${found.candidates.length > 0 && html`<${Candidates} items=${found.candidates} />`}
    ${found.leftOut.length > 0 &&
    html`<section class="box stack">
      <h2>${t.explain.leftOut}</h2>
      <ul>${found.leftOut.map((one) => html`<li><strong>${one.host}</strong> ${one.reason}</li>`)}</ul>
    </section>`}
    ${found.references.length > 0 &&
    html`<section class="box stack">
      <h2>${t.explain.rules}</h2>
      <ul>${found.references.map((one) => html`<li><code>${one.reference}</code> <${Badge} tone=${one.effect === "deny" ? "bad" : "good"}>${one.effect}<//> ${one.hosts?.join(", ")}</li>`)}</ul>
    </section>`}
  </div>`;
}

function Candidates({ items }) {
  return html`<section class="stack">
    <h2>${t.explain.candidates}</h2>
    <div class="scroll" tabindex="0" role="region" aria-label=${t.explain.candidates}>
      <table class="table">
        <thead><tr>${t.explain.columns.map((title, index) => html`<th scope="col" class=${index === 2 ? "figure" : ""}>${title}</th>`)}</tr></thead>
        <tbody>
          ${items.map(
            (one) => html`<tr key=${one.model + one.hostId}>
              <td><a href=${`/ui/hosts/${one.hostId}`}>${one.host}</a><span class="under">${one.message}</span></td>
              <td><code>${one.upstreamName}</code>${one.translatedTo && html`<span class="under">${t.explain.translated(one.translatedTo)}</span>`}</td>
              <td class="figure">${one.priority} / ${one.weight}</td>
              <td>${one.noAuth ? t.explain.noAuth : one.hostKeys.map((key) => html`<${HostKey} key=${key.id} found=${key} />`)}</td>
            </tr>`,
          )}
        </tbody>
      </table>
    </div>
  </section>`;
}

/** A host key that may be drawn, and what is left of its own limits. */
function HostKey({ found }) {
  const resting = [found.reason, found.secondsLeft && duration(found.secondsLeft * 1000)].filter(Boolean).join(", ");
  return html`<div>
    <a href=${`/ui/host-keys/${found.id}`}>${found.slug}</a> <${State} value=${found.state} /> <span class="hint">${resting}</span>
    ${found.limits.map((one) => html`<span class="under">${!one.ok && html`<${Badge} tone="bad">${t.explain.used}<//> `}${one.message}</span>`)}
  </div>`;
}

function Users({ found }) {
  if (!found.policies.length) return html`<${Empty} title=${t.explain.nobody}>${t.explain.nobodyHint}<//>`;
  return html`<section class="stack">
    <h2>${t.explain.users(found.model)}</h2>
    <div class="scroll" tabindex="0" role="region" aria-label=${t.explain.users(found.model)}>
      <table class="table">
        <thead><tr>${t.explain.userColumns.map((title) => html`<th scope="col">${title}</th>`)}</tr></thead>
        <tbody>
          ${found.policies.map(
            (one) => html`<tr key=${one.policyId}>
              <td><a href=${`/ui/policies/${one.policyId}`}>${one.policy}</a></td>
              <td>${one.hosts.join(", ")}</td>
              <td>${one.callable ? t.yes : html`<${Badge} tone="warn">${t.explain.noKey}<//>`}</td>
              <td>${one.relayKeys.join(", ")}${one.relayKeyCount > one.relayKeys.length && ` … (${one.relayKeyCount})`}</td>
            </tr>`,
          )}
        </tbody>
      </table>
    </div>
  </section>`;
}
