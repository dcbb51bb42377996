// Settings that are changed while the gateway runs, each section with its history.
import { html, useEffect, useMemo, useRef, useState } from "../core/html.js";
import { get, put } from "../core/api.js";
import { useDraft } from "../core/draft.js";
import { ago, label, moment } from "../core/format.js";
import { useResource } from "../core/resource.js";
import { guardLeaving } from "../core/router.js";
import { Schemas, openApi } from "../core/schema.js";
import { Busy, Failure, Prose } from "../parts/bits.js";
import { Dialog } from "../parts/dialog.js";
import { Diff, differences } from "../parts/diff.js";
import { Fields, Problems, problemsOf } from "../parts/form.js";
import { toast } from "../parts/toast.js";
import { t } from "../strings.js";

export function View() {
  const document = useResource(openApi, []);
  const stored = useResource((signal) => get("/settings", {}, signal), []);
  const edited = useRef(new Set());
  useEffect(() => guardLeaving(() => !edited.current.size), []);
  const failed = document.error ?? stored.error;
  if (failed) return html`<${Failure} error=${failed} retry=${() => (document.reload(), stored.reload())} />`;
  if (!document.data || !stored.data) return html`<${Busy} />`;
  return html`
    <header><h1>${t.nav.settings}</h1></header>
    <p class="hint">${t.settings.hint}</p>
    <div class="stack editor">
      ${Object.entries(stored.data).map(
        ([name, value]) => html`<${Section} key=${name} ...${{ name, stored: value, document: document.data, edited: edited.current }} set=${(now) => stored.set((old) => ({ ...old, [name]: now }))} />`,
      )}
    </div>
  `;
}

function Section({ name, stored, document, set, edited }) {
  const schemas = useMemo(() => new Schemas(document), [document]);
  const [value, setValue, settle] = useDraft(stored);
  const [error, setError] = useState(null);
  const [step, setStep] = useState(null);
  const changed = differences(stored, value).length > 0;
  changed ? edited.add(name) : edited.delete(name);
  useEffect(() => () => edited.delete(name), []);
  const content = document.paths[`/settings/${name}`].put.requestBody.content["application/json"];
  const schema = schemas.resolve(content.schema);
  const save = async () => {
    const fields = Object.fromEntries(
      Object.entries(value).filter(([field, one]) => JSON.stringify(one) !== JSON.stringify(stored[field])),
    );
    try {
      const now = await put(`/settings/${name}`, fields);
      settle();
      set(now);
      setStep(null);
      setError(null);
      toast(t.entity.saved);
    } catch (problem) {
      setStep(null);
      setError(problem);
    }
  };
  const submit = (event) => {
    event.preventDefault();
    step === "review" ? save() : setStep("review");
  };
  return html`<form class="box stack" onSubmit=${submit} aria-label=${label(name)} novalidate>
    <div class="row spread">
      <h2>${label(name)}</h2>
      <button type="button" class="quiet" onClick=${() => setStep("history")}>${t.settings.history}</button>
    </div>
    ${schema.description && html`<p class="hint"><${Prose} text=${schema.description} /></p>`}
    <${Problems} error=${error} />
    <${Fields} form=${{ schemas, problems: error ? problemsOf(error) : {} }} schema=${schema} value=${value} path="" onChange=${setValue} />
    <div><button type="submit" class="primary" disabled=${!changed}>${t.save}</button></div>
    ${step === "review" &&
    html`<${Dialog} title=${t.entity.review} wide onClose=${() => setStep(null)}>
      <div class="content">
        <h2>${t.entity.review}</h2>
        <${Diff} before=${stored} after=${value} />
        <div class="actions">
          <button type="button" onClick=${() => setStep(null)}>${t.cancel}</button>
          <button type="button" class="primary" autofocus onClick=${save}>${t.save}</button>
        </div>
      </div>
    <//>`}
    ${step === "history" && html`<${History} name=${name} onClose=${() => setStep(null)} />`}
  </form>`;
}

function History({ name, onClose }) {
  const found = useResource((signal) => get(`/settings/${name}/history`, {}, signal), [name]);
  const items = found.data?.items ?? [];
  return html`<${Dialog} title=${t.settings.history} wide onClose=${onClose}>
    <div class="content">
      <h2>${t.settings.historyOf(label(name))}</h2>
      <${Busy} active=${found.loading} />
      ${found.error && html`<${Failure} error=${found.error} retry=${found.reload} />`}
      ${found.data && !items.length && html`<p class="hint">${t.settings.never}</p>`}
      ${items.map(
        (one, index) => html`<section class="stack" key=${index}>
          <h3 title=${moment(one.changedAt)}>${ago(one.changedAt)} <span class="hint">${one.changedBy}</span></h3>
          <${Diff} before=${items[index + 1]?.value ?? {}} after=${one.value} />
        </section>`,
      )}
      <div class="actions"><button type="button" onClick=${onClose}>${t.close}</button></div>
    </div>
  <//>`;
}
