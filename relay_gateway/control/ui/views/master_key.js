// The keys that stored secrets are sealed with, and how far a rotation is.
import { html, useState } from "../core/html.js";
import { get, post } from "../core/api.js";
import { ago } from "../core/format.js";
import { useInterval, useResource } from "../core/resource.js";
import { Badge, Busy, Copyable, Failure, State } from "../parts/bits.js";
import { Confirm, Dialog } from "../parts/dialog.js";
import { t } from "../strings.js";

export function View() {
  const found = useResource((signal) => get("/master-key/status", {}, signal), []);
  const [generated, setGenerated] = useState(null);
  const [asking, setAsking] = useState(false);
  useInterval(found.reload, 2, Boolean(found.data?.running));
  const generate = async () => setGenerated(await post("/master-key/generate"));
  const rotate = async () => {
    await post("/master-key/rotate");
    setAsking(false);
    found.reload();
  };
  return html`
    <header>
      <h1>${t.nav.masterKey}</h1>
      <button type="button" onClick=${generate}>${t.masterKey.generate}</button>
      <button type="button" onClick=${() => setAsking(true)}>${t.masterKey.rotate}</button>
    </header>
    <p class="hint">${t.masterKey.hint}</p>
    <${Busy} active=${found.data?.running ?? found.loading} />
    ${found.error && html`<${Failure} error=${found.error} retry=${found.reload} />`}
    ${found.data?.error && html`<p class="notice bad" role="alert">${found.data.error}</p>`}
    ${found.data?.backends.map((one) => html`<${Backend} key=${one.backend} found=${one} />`)}
    ${generated &&
    html`<${Dialog} title=${t.masterKey.generate} onClose=${() => setGenerated(null)}>
      <div class="content">
        <h2>${t.masterKey.generated}</h2>
        <p class="hint">${t.masterKey.generatedHint}</p>
        <${Copyable} text=${generated.key} />
        <div class="actions"><button type="button" onClick=${() => setGenerated(null)}>${t.close}</button></div>
      </div>
    <//>`}
    ${asking && html`<${Confirm} title=${t.masterKey.rotate} hint=${t.masterKey.rotateHint} action=${t.masterKey.rotate} tone="primary" act=${rotate} onClose=${() => setAsking(false)} />`}
  `;
}

function Backend({ found }) {
  const good = found.state === "good";
  return html`<section class="stack group">
    <h2>${found.backend} <${Badge} tone=${good ? "good" : "bad"}>${found.state}<//></h2>
    ${found.trouble && html`<p class="notice bad">${found.trouble}</p>`}
    <p class="hint">${t.masterKey.rewrap(found.rewrap, ago)}</p>
    <div class="scroll" tabindex="0" role="region" aria-label=${found.backend}>
      <table class="table">
        <thead><tr>${t.masterKey.columns.map((title, index) => html`<th scope="col" class=${index === 2 ? "figure" : ""}>${title}</th>`)}</tr></thead>
        <tbody>
          ${found.keys.map(
            (key) => html`<tr key=${key.keyId}>
              <td><code>${key.keyId}</code> ${key.current && html`<${Badge} tone="accent">${t.masterKey.current}<//>`}</td>
              <td><${State} value=${key.state} /></td>
              <td class="figure">${key.references}</td>
              <td>${ago(key.addedAt)}</td>
              <td>${key.removable ? t.yes : t.no}</td>
            </tr>`,
          )}
        </tbody>
      </table>
    </div>
  </section>`;
}
