// What can be done with entities of one kind only: keys rotate and are revoked, hosts are tested.
import { html, useState } from "../core/html.js";
import { post } from "../core/api.js";
import { ago, duration, label } from "../core/format.js";
import { Copyable, Facts, State } from "../parts/bits.js";
import { Confirm, Dialog } from "../parts/dialog.js";
import { toast } from "../parts/toast.js";
import { keyState } from "./catalog_list.js";
import { t } from "../strings.js";

/** Buttons beside the name of an entity. */
export function KindActions({ kind, entity, reload }) {
  if (kind === "relay-keys") return html`<${RelayKeyActions} entity=${entity} reload=${reload} />`;
  if (kind === "host-keys") return html`<${HostKeyActions} entity=${entity} reload=${reload} />`;
  if (kind === "hosts") return html`<${HostActions} entity=${entity} />`;
  return null;
}

/** The state of an entity, where its kind has one. */
export function KindStatus({ kind, entity }) {
  if (kind === "relay-keys") return html`<p class="row"><${State} value=${keyState(entity)} /></p>`;
  const status = entity.status;
  if (!status) return null;
  const shown = Object.entries(status).filter(([, value]) => value !== null && typeof value !== "object");
  return html`<section class="box stack" aria-label=${t.keys.status}>
    <${Facts} items=${shown.map(([name, value]) => [label(name), name === "state" ? html`<${State} value=${value} />` : valueText(value)])} />
  </section>`;
}

const valueText = (value) =>
  typeof value === "boolean" ? (value ? t.yes : t.no) : /^\d{4}-\d\d-\d\dT/.test(value) ? ago(value) : String(value);

function RelayKeyActions({ entity, reload }) {
  const [asking, setAsking] = useState(null);
  const [issued, setIssued] = useState(null);
  const [grace, setGrace] = useState(0);
  const path = `/relay-keys/by-id/${entity.metadata.id}`;
  const close = () => setAsking(null);
  const rotate = async () => {
    setIssued(await post(`${path}/rotate`, { graceSeconds: Number(grace) }));
    close();
  };
  const revoke = async () => {
    await post(`${path}/revoke`);
    toast(t.keys.revoked);
    close();
    reload();
  };
  if (entity.spec.revokedAt) return null;
  return html`
    <button type="button" onClick=${() => setAsking("rotate")}>${t.keys.rotate}</button>
    <button type="button" class="danger" onClick=${() => setAsking("revoke")}>${t.keys.revoke}</button>
    ${asking === "rotate" &&
    html`<${Confirm} title=${t.keys.rotate} hint=${t.keys.rotateHint} action=${t.keys.rotate} tone="primary" act=${rotate} onClose=${close}>
      <div class="field">
        <label for="grace">${t.keys.grace}</label>
        <input id="grace" type="number" min="0" value=${grace} onInput=${(event) => setGrace(event.target.value)} />
      </div>
    <//>`}
    ${asking === "revoke" && html`<${Confirm} title=${t.keys.revoke} hint=${t.keys.revokeHint} action=${t.keys.revoke} act=${revoke} onClose=${close} />`}
    ${issued && html`<${IssuedKey} plaintext=${issued.plaintext} onClose=${() => (setIssued(null), reload())} />`}
  `;
}

/** A relay key, the one time that it can be seen. */
export function IssuedKey({ plaintext, onClose }) {
  return html`<${Dialog} title=${t.keys.issued} onClose=${() => {}}>
    <div class="content">
      <h2>${t.keys.issued}</h2>
      <p class="hint">${t.keys.issuedHint}</p>
      <${Copyable} text=${plaintext} />
      <div class="actions"><button type="button" class="primary" onClick=${onClose}>${t.keys.done}</button></div>
    </div>
  <//>`;
}

function HostKeyActions({ entity, reload }) {
  const [rotating, setRotating] = useState(false);
  const [value, setValue] = useState("");
  const path = `/host-keys/by-id/${entity.metadata.id}`;
  const reset = async () => {
    try {
      await post(`${path}/reset`);
      toast(t.keys.resetDone);
    } catch (problem) {
      toast(problem.message);
    }
    reload();
  };
  const rotate = async () => {
    await post(`${path}/rotate`, { valueFrom: { kind: "stored", value } });
    toast(t.keys.rotated);
    setRotating(false);
    setValue("");
    reload();
  };
  return html`
    <button type="button" onClick=${reset}>${t.keys.reset}</button>
    ${entity.spec.valueFrom?.kind === "stored" && html`<button type="button" onClick=${() => setRotating(true)}>${t.keys.rotate}</button>`}
    ${rotating &&
    html`<${Confirm} title=${t.keys.rotate} action=${t.keys.rotate} tone="primary" act=${rotate} onClose=${() => setRotating(false)}>
      <div class="field">
        <label for="new-value">${t.keys.newValue}</label>
        <input id="new-value" type="password" autocomplete="new-password" value=${value} onInput=${(event) => setValue(event.target.value)} />
      </div>
    <//>`}
  `;
}

function HostActions({ entity }) {
  const [state, setState] = useState(null);
  const test = async () => {
    setState({ busy: true });
    try {
      setState({ result: await post(`/hosts/by-id/${entity.metadata.id}/test`) });
    } catch (problem) {
      setState({ result: { ok: false, error: problem.message } });
    }
  };
  const result = state?.result;
  return html`
    <button type="button" disabled=${state?.busy} onClick=${test}>${state?.busy ? t.host.testing : t.host.test}</button>
    ${result &&
    html`<${Dialog} title=${t.host.test} onClose=${() => setState(null)}>
      <div class="content">
        <p class=${`notice ${result.ok ? "good" : "bad"}`} role="status">${result.ok ? t.host.works(duration(result.latencyMs)) : t.host.fails}</p>
        <${Facts} items=${Object.entries(result).filter(([name, one]) => name !== "ok" && one !== null && typeof one !== "object").map(([name, one]) => [label(name), String(one)])} />
        <div class="actions"><button type="button" autofocus onClick=${() => setState(null)}>${t.close}</button></div>
      </div>
    <//>`}
  `;
}
