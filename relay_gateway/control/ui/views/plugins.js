// What is installed, from where, and in which state.
import { html, useState } from "../core/html.js";
import { get, post } from "../core/api.js";
import { duration, number } from "../core/format.js";
import { useInterval, useResource } from "../core/resource.js";
import { Busy, Empty, Failure, State } from "../parts/bits.js";
import { toast } from "../parts/toast.js";
import { t } from "../strings.js";

export function View() {
  const found = useResource((signal) => get("/plugins", {}, signal), []);
  useInterval(found.reload, 10);
  const kinds = [...new Set((found.data?.items ?? []).map((one) => one.kind))].sort();
  const broken = (found.data?.items ?? []).filter((one) => one.error && one.state !== "registered");
  return html`
    <header><h1>${t.nav.plugins}</h1><${Reload} done=${found.reload} /></header>
    <p class="hint">${t.plugins.hint}</p>
    <${Busy} active=${found.loading && !found.data} />
    ${found.error && html`<${Failure} error=${found.error} retry=${found.reload} />`}
    ${broken.map(
      (one) => html`<div class="notice bad stack" role="alert" key=${one.kind + one.name}>
        <strong>${one.kind} ${one.name} (${one.distribution})</strong><span>${one.error}</span>
      </div>`,
    )}
    ${found.data && !kinds.length && html`<${Empty} title=${t.plugins.empty}>${t.plugins.hint}<//>`}
    ${kinds.map((kind) => html`<${Kind} key=${kind} kind=${kind} items=${found.data.items.filter((one) => one.kind === kind)} />`)}
  `;
}

function Kind({ kind, items }) {
  const title = t.plugins.kinds[kind] ?? kind;
  return html`<section class="stack group">
    <h2>${title}</h2>
    <div class="scroll" tabindex="0" role="region" aria-label=${title}>
      <table class="table plugins">
        <thead><tr>${t.plugins.columns.map((title, index) => html`<th scope="col" class=${index > 2 ? "figure" : ""}>${title}</th>`)}</tr></thead>
        <tbody>
          ${items.map(
            (one) => html`<tr key=${one.name}>
              <td>
                <strong>${one.name}</strong>${one.error && html`<span class="under">${one.error}</span>`}
                ${one.config && Object.keys(one.config).length > 0 && html`<details class="under"><summary>${t.plugins.config}</summary><pre class="config">${JSON.stringify(one.config, null, 2)}</pre></details>`}
              </td>
              <td><${State} value=${one.state} /></td>
              <td>${one.distribution}<span class="under">${one.version}</span></td>
              ${figures(one.metrics).map((figure) => html`<td class="figure">${figure}</td>`)}
            </tr>`,
          )}
        </tbody>
      </table>
    </div>
  </section>`;
}

/** Calls, errors, stalls and the mean time of a call, since the processes started. */
function figures(metrics) {
  if (!metrics?.calls && !metrics?.errors) return ["–", "–", "–", "–"];
  const { calls, errors, stalls, seconds } = metrics;
  return [number(calls), number(errors), number(stalls), calls ? duration((seconds * 1000) / calls) : "–"];
}

function Reload({ done }) {
  const [state, setState] = useState({ busy: false, error: null });
  const act = async () => {
    setState({ busy: true, error: null });
    try {
      await post("/plugins/reload");
      toast(t.plugins.reloaded);
      setState({ busy: false, error: null });
    } catch (error) {
      setState({ busy: false, error });
    }
    done();
  };
  return html`
    ${state.error && html`<span class="badge bad" role="alert">${state.error.message}</span>`}
    <button type="button" disabled=${state.busy} onClick=${act}>${t.plugins.reload}</button>
  `;
}
