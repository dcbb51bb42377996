// One entity: read, changed with a look at the difference, deleted, and what only its kind can do.
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../core/html.js";
import { get, put, remove, request } from "../core/api.js";
import { useDraft } from "../core/draft.js";
import { ago } from "../core/format.js";
import { forgetEntities } from "../core/names.js";
import { useResource } from "../core/resource.js";
import { guardLeaving, nameTab, navigate } from "../core/router.js";
import { Schemas, openApi } from "../core/schema.js";
import { Busy, Empty, Failure } from "../parts/bits.js";
import { Confirm, Dialog } from "../parts/dialog.js";
import { Diff, differences } from "../parts/diff.js";
import { Fields, Problems, problemsOf } from "../parts/form.js";
import { toast } from "../parts/toast.js";
import { IssuedKey, KindActions, KindStatus } from "./kind_actions.js";
import { t } from "../strings.js";

export function View({ kind, id }) {
  const document = useResource(openApi, []);
  const entity = useResource((signal) => (id ? readEntity(kind, id, signal) : Promise.resolve(null)), [kind, id]);
  const failed = document.error ?? entity.error;
  if (failed?.status === 404) {
    return html`<${Empty} level="h1" title=${failed.message} action=${html`<a href=${`/ui/${kind}`}>${t.kinds[kind].many}</a>`}>${t.notFound.text}<//>`;
  }
  if (failed) return html`<${Failure} error=${failed} retry=${() => (document.reload(), entity.reload())} />`;
  if (!document.data || entity.data === undefined) return html`<${Busy} />`;
  return html`<${Editor} key=${id} ...${{ kind, stored: entity.data, document: document.data, reload: entity.reload, set: entity.set }} />`;
}

async function readEntity(kind, id, signal) {
  return get(`/${kind}/${encodeURIComponent(id)}`, {}, signal);
}

/** What the server does not decide of the metadata. */
const OWN = ["displayName", "slug", "description", "labels"];

/** What the client may say of an entity that is stored. */
function editable(entity, schemas, kind) {
  const metadata = Object.fromEntries(Object.entries(entity.metadata).filter(([name]) => OWN.includes(name)));
  const fields = schemas.fields(schemas.spec(kind, "put"), entity.spec);
  const spec = Object.fromEntries(Object.entries(entity.spec).filter(([name]) => name in fields));
  return { metadata, spec };
}

function Editor({ kind, stored, document, reload, set }) {
  const schemas = useMemo(() => new Schemas(document), [document]);
  const method = stored ? "put" : "post";
  const base = useMemo(() => {
    if (stored) return editable(stored, schemas, kind);
    return { metadata: { displayName: "" }, spec: schemas.initialObject(schemas.spec(kind, method)) };
  }, [stored]);
  const [value, setValue, settle] = useDraft(base);
  const [error, setError] = useState(null);
  const [step, setStep] = useState(null);
  const [issued, setIssued] = useState(null);
  const changed = differences(base, value).length > 0;
  const clean = useRef(true);
  clean.current = !changed || step === "done";
  useEffect(() => guardLeaving(() => clean.current), []);
  const first = useRef(null);
  // Whoever makes something new begins to type; whoever is at something else is left there.
  useLayoutEffect(() => {
    if (!stored && window.document.activeElement === window.document.body) first.current.querySelector("input").focus();
  }, []);
  const form = { schemas, problems: error ? problemsOf(error) : {} };
  const metadata = schemas.resolve(schemas.body(kind, method).properties.metadata);

  const failed = (problem) => {
    setStep(problem.status === 412 ? "conflict" : null);
    setError(problem.status === 412 ? null : problem);
    if (problem.status === 412) return;
    requestAnimationFrame(() => document_top());
  };
  const finish = (entity, text) => {
    clean.current = true;
    forgetEntities();
    toast(text);
    setStep(stored ? null : "done");
    settle();
    if (stored) set({ ...stored, ...entity });
    navigate(`/${kind}/${entity.metadata.id}`, { replace: true });
  };
  const save = async (version = stored?.metadata.version) => {
    setStep("saving");
    try {
      if (!stored) {
        const { body } = await request("POST", `/${kind}`, { body: value, headers: { "idempotency-key": keyOf.current } });
        if (body.plaintext) {
          setStep("done");
          setIssued(body);
        } else finish(body, t.entity.created);
        return;
      }
      const headers = version === null ? {} : { "if-match": `"${version}"` };
      finish(await put(`/${kind}/by-id/${stored.metadata.id}`, value, { headers }), t.entity.saved);
    } catch (problem) {
      failed(problem);
    }
  };
  const keyOf = useRef(crypto.randomUUID?.() ?? String(Math.random()).slice(2));
  const submit = (event) => {
    event.preventDefault();
    if (stored) setStep("review");
    else save();
  };
  const names = t.kinds[kind];
  const title = stored ? stored.metadata.displayName : t.entity.create(names.one);
  useEffect(() => nameTab(title), [title]);
  return html`
    <header>
      <div class="stack title">
        <a class="hint" href=${`/ui/${kind}`}>${names.many}</a>
        <h1>${title}</h1>
        ${stored &&
        html`<span class="hint"><code>${stored.metadata.slug}</code>${` · ${t.entity.version(stored.metadata.version)} · ${t.entity.changed(ago(stored.metadata.updatedAt))}`}</span>`}
      </div>
      ${stored && html`<${KindActions} kind=${kind} entity=${stored} reload=${reload} />`}
      ${stored && html`<button type="button" class="danger" onClick=${() => setStep("delete")}>${t.entity.remove}</button>`}
    </header>
    ${stored && !["api", "catalog"].includes(stored.metadata.managedBy) && html`<p class="notice warn">${t.entity.managed(stored.metadata.managedBy)}</p>`}
    ${stored && html`<${KindStatus} kind=${kind} entity=${stored} />`}
    <form class="stack editor" onSubmit=${submit} novalidate>
      <${Problems} error=${error} />
      <section class="box stack" aria-label=${t.entity.metadata} ref=${first}>
        <h2>${t.entity.metadata}</h2>
        <${Fields} form=${form} schema=${metadata} value=${value.metadata} path="metadata" only=${stored ? OWN.filter((name) => name !== "slug") : OWN}
          onChange=${(next) => setValue({ ...value, metadata: next })} />
      </section>
      <section class="box stack" aria-label=${t.entity.spec}>
        <h2>${t.entity.spec}</h2>
        <${Fields} form=${form} schema=${schemas.spec(kind, method)} value=${value.spec} path="spec" skip=${schemas.decided(kind)}
          onChange=${(next) => setValue({ ...value, spec: next })} />
      </section>
      <div class="row savebar">
        <button type="submit" class="primary" data-save disabled=${step === "saving" || (stored && !changed)}>${t.save}</button>
        <a href=${`/ui/${kind}`}>${t.cancel}</a>
      </div>
    </form>
    ${stored && html`<${References} kind=${kind} entity=${stored} />`}
    ${step === "review" && html`<${Review} ...${{ base, value, close: () => setStep(null), save: () => save() }} />`}
    ${step === "conflict" && html`<${Conflict} ...${{ kind, stored, value, schemas, save, take: (theirs) => (settle(), set(theirs), setStep(null)), close: () => setStep(null) }} />`}
    ${step === "delete" && html`<${Delete} ...${{ kind, stored, clean, close: () => setStep(null) }} />`}
    ${issued && html`<${IssuedKey} plaintext=${issued.plaintext} onClose=${() => finish(issued.relayKey, t.entity.created)} />`}
  `;
}

const document_top = () => document.querySelector("form [role=alert]")?.scrollIntoView({ block: "center" });

function Review({ base, value, close, save }) {
  const submit = (event) => {
    event.preventDefault();
    save();
  };
  return html`<${Dialog} title=${t.entity.review} wide onClose=${close}>
    <form onSubmit=${submit}>
      <h2>${t.entity.review}</h2>
      <p class="hint">${t.entity.reviewHint}</p>
      <${Diff} before=${base} after=${value} />
      <div class="actions">
        <button type="button" onClick=${close}>${t.cancel}</button>
        <button type="submit" class="primary" autofocus>${t.save}</button>
      </div>
    </form>
  <//>`;
}

function Conflict({ kind, stored, value, schemas, save, take, close }) {
  const theirs = useResource((signal) => readEntity(kind, stored.metadata.id, signal), []);
  return html`<${Dialog} title=${t.entity.conflict} wide onClose=${close}>
    <div class="content">
      <h2>${t.entity.conflict}</h2>
      <p class="hint">${t.entity.conflictHint}</p>
      ${theirs.error && html`<${Failure} error=${theirs.error} retry=${theirs.reload} />`}
      ${theirs.data
        ? html`<${Diff} before=${editable(theirs.data, schemas, kind)} after=${value} titles=${[t.entity.theirs, t.entity.yours]} />`
        : html`<${Busy} />`}
      <div class="actions">
        <button type="button" onClick=${close}>${t.cancel}</button>
        <button type="button" disabled=${!theirs.data} onClick=${() => take(theirs.data)}>${t.entity.takeTheirs}</button>
        <button type="button" class="primary" disabled=${!theirs.data} onClick=${() => save(theirs.data.metadata.version)}>${t.entity.keepMine}</button>
      </div>
    </div>
  <//>`;
}

function Delete({ kind, stored, clean, close }) {
  const [referrers, setReferrers] = useState(null);
  const act = async () => {
    try {
      await remove(`/${kind}/by-id/${stored.metadata.id}`, { headers: { "if-match": `"${stored.metadata.version}"` } });
    } catch (problem) {
      if (problem.status === 409 && problem.referrers.length) {
        setReferrers(problem.referrers);
        return;
      }
      throw problem;
    }
    clean.current = true;
    forgetEntities();
    toast(t.entity.deleted);
    navigate(`/${kind}`);
  };
  if (referrers) {
    return html`<${Dialog} title=${t.entity.inUse} onClose=${close}>
      <div class="content">
        <h2>${t.entity.inUse}</h2>
        <p class="hint">${t.entity.inUseHint}</p>
        <${ReferrerList} items=${referrers} />
        <div class="actions"><button type="button" autofocus onClick=${close}>${t.close}</button></div>
      </div>
    <//>`;
  }
  return html`<${Confirm} title=${t.entity.removeQuestion(stored.metadata.displayName)} hint=${t.entity.removeHint} action=${t.entity.remove} act=${act} onClose=${close} />`;
}

function References({ kind, entity }) {
  const found = useResource((signal) => get(`/${kind}/${entity.metadata.id}/references`, {}, signal), [entity.metadata.id]);
  if (!found.data) return null;
  return html`<section class="box stack referrers">
    <h2>${t.entity.references}</h2>
    ${found.data.items.length ? html`<${ReferrerList} items=${found.data.items} />` : html`<p class="hint">${t.entity.unused}</p>`}
  </section>`;
}

const PLURALS = Object.fromEntries(Object.keys(t.kinds).map((kind) => [t.kinds[kind].one.toLowerCase(), kind]));

function ReferrerList({ items }) {
  const plural = (kind) => PLURALS[kind] ?? PLURALS[kind.replace("pricing", "price list")] ?? kind;
  return html`<ul>
    ${items.map((one) => html`<li key=${one.id + one.field}><a href=${`/ui/${plural(one.kind)}/${one.id}`}>${one.displayName ?? one.slug}</a> <span class="hint">${one.kind}, <code>${one.field}</code></span></li>`)}
  </ul>`;
}
