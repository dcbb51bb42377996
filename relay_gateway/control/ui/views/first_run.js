// From an empty gateway to a first answer: a host and its key, a relay key, a request.
import { html, useEffect, useMemo, useState } from "../core/html.js";
import { get, post } from "../core/api.js";
import { entityById } from "../core/names.js";
import { useResource } from "../core/resource.js";
import { Schemas, openApi } from "../core/schema.js";
import { Busy, Copyable, Failure } from "../parts/bits.js";
import { Field, Problems, problemsOf } from "../parts/form.js";
import { Picker } from "../parts/picker.js";
import { t } from "../strings.js";

export function View() {
  const document = useResource(openApi, []);
  const inference = useResource((signal) => get("/inference", {}, signal), []);
  const policies = useResource((signal) => get("/policies", { limit: 1, sort: "createdAt" }, signal), []);
  const [issued, setIssued] = useState(null);
  const [model, setModel] = useState("");
  const failed = document.error ?? inference.error ?? policies.error;
  if (failed) return html`<${Failure} error=${failed} retry=${() => location.reload()} />`;
  if (!document.data || !inference.data || !policies.data) return html`<${Busy} />`;
  const policy = policies.data.items[0]?.metadata.id ?? null;
  return html`
    <header><h1>${t.first.title}</h1></header>
    <p class="hint">${t.first.hint}</p>
    <div class="stack editor">
      <${HostKey} document=${document.data} policy=${policy} />
      <${RelayKey} policy=${policy} issued=${issued} onIssued=${setIssued} />
      <${Try} plaintext=${issued?.plaintext} model=${model} onModel=${setModel} />
      <${Snippets} url=${inference.data.url} plaintext=${issued?.plaintext} model=${model} />
    </div>
  `;
}

function Step({ number, title, done, children }) {
  return html`<section class="box stack" aria-label=${title}>
    <h2><span class=${`step ${done ? "done" : ""}`} aria-hidden="true">${done ? "✓" : number}</span> ${title}</h2>
    ${children}
  </section>`;
}

function HostKey({ document, policy }) {
  const schemas = useMemo(() => new Schemas(document), [document]);
  const [host, setHost] = useState(null);
  const [valueFrom, setValueFrom] = useState(undefined);
  const [state, setState] = useState({ busy: false, error: null, done: null });
  const chosen = useResource(() => (host ? entityById("hosts", host) : Promise.resolve(null)), [host]);
  const keyless = chosen.data?.spec.noAuth;
  const schema = schemas.spec("host-keys", "post").properties.valueFrom;
  const form = { schemas, problems: state.error ? problemsOf(state.error) : {} };
  const submit = async (event) => {
    event.preventDefault();
    setState({ busy: true, error: null, done: null });
    try {
      const name = chosen.data.metadata.displayName;
      await post("/host-keys", { metadata: { displayName: t.first.keyOf(name) }, spec: { hostId: host, policyId: policy, valueFrom } });
      const result = await post(`/hosts/by-id/${host}/test`).catch((error) => ({ ok: false, message: error.message }));
      setState({ busy: false, error: null, done: result });
    } catch (error) {
      setState({ busy: false, error, done: null });
    }
  };
  return html`<${Step} number="1" title=${t.first.host} done=${Boolean(state.done?.ok || keyless)}>
    <p class="hint">${t.first.hostHint}</p>
    <form class="stack" onSubmit=${submit} novalidate>
      <div class="field"><label for="first-host">${t.kinds.hosts.one}</label><${Picker} id="first-host" plural="hosts" value=${host} onChange=${setHost} /></div>
      ${keyless && html`<p class="notice good">${t.first.keyless}</p>`}
      ${chosen.data && chosen.data.spec.enabled === false && html`<p class="notice warn">${t.first.disabled} <a href=${`/ui/hosts/${host}`}>${chosen.data.metadata.displayName}</a></p>`}
      ${host && !keyless && html`<${Field} ...${{ form, name: "valueFrom", schema, value: valueFrom, path: "spec.valueFrom", required: true, onChange: setValueFrom }} />`}
      <${Problems} error=${state.error} />
      ${state.done && html`<p class=${`notice ${state.done.ok ? "good" : "warn"}`} role="status">${t.first.keySaved} ${state.done.message}</p>`}
      ${host && !keyless && html`<div><button type="submit" class="primary" disabled=${state.busy || !valueFrom}>${t.first.saveKey}</button></div>`}
    </form>
  <//>`;
}

function RelayKey({ policy, issued, onIssued }) {
  const [name, setName] = useState(t.first.keyName);
  const [chosen, setChosen] = useState(policy);
  const [error, setError] = useState(null);
  const submit = async (event) => {
    event.preventDefault();
    setError(null);
    try {
      onIssued(await post("/relay-keys", { metadata: { displayName: name }, spec: { policyId: chosen } }));
    } catch (problem) {
      setError(problem);
    }
  };
  return html`<${Step} number="2" title=${t.first.relayKey} done=${Boolean(issued)}>
    <p class="hint">${t.first.relayKeyHint}</p>
    ${issued
      ? html`<p class="notice warn">${t.keys.issuedHint}</p><${Copyable} text=${issued.plaintext} />`
      : html`<form class="stack" onSubmit=${submit} novalidate>
          <div class="field"><label for="first-name">${t.list.name}</label><input id="first-name" value=${name} onInput=${(event) => setName(event.target.value)} /></div>
          <div class="field"><label for="first-policy">${t.kinds.policies.one}</label><${Picker} id="first-policy" plural="policies" value=${chosen} onChange=${setChosen} /></div>
          <${Problems} error=${error} />
          <div><button type="submit" class="primary" disabled=${!name || !chosen}>${t.first.mint}</button></div>
        </form>`}
  <//>`;
}

/** The texts in the events of a stream, as they come. */
async function* pieces(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (!line.startsWith("data: ") || line === "data: [DONE]") continue;
      yield JSON.parse(line.slice(6)).choices?.[0]?.delta?.content ?? "";
    }
  }
}

function Try({ plaintext, model, onModel }) {
  const [prompt, setPrompt] = useState(t.first.prompt);
  const [typed, setTyped] = useState("");
  const [state, setState] = useState({ busy: false, text: "", error: "", id: "" });
  const models = useResource((signal) => get("/models", { limit: 200, enabled: true }, signal), []);
  const names = (models.data?.items ?? []).map((one) => one.spec.name ?? one.metadata.slug);
  useEffect(() => {
    if (!model && names.includes("echo")) onModel("echo");
  }, [names.length]);
  const key = plaintext ?? typed.trim();
  const send = async (event) => {
    event.preventDefault();
    setState({ busy: true, text: "", error: "", id: "" });
    try {
      const body = { model, stream: true, messages: [{ role: "user", content: prompt }] };
      const answer = await fetch("/inference/try", {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ relayKey: key, body }),
      });
      const id = [...answer.headers].find(([name]) => name.endsWith("inference-request-id"))?.[1] ?? "";
      if (!answer.ok) {
        const told = await answer.json();
        setState({ busy: false, text: "", error: `${answer.status} ${told.error?.message ?? ""}`, id });
        return;
      }
      for await (const piece of pieces(answer)) setState((old) => ({ ...old, id, text: old.text + piece }));
      setState((old) => ({ ...old, busy: false }));
    } catch (error) {
      setState((old) => ({ ...old, busy: false, error: error.message }));
    }
  };
  return html`<${Step} number="3" title=${t.first.try} done=${Boolean(state.text && !state.busy)}>
    <form class="stack" onSubmit=${send}>
      ${!plaintext && html`<div class="field"><label for="try-key">${t.kinds["relay-keys"].one}</label><input id="try-key" type="password" autocomplete="off" value=${typed} onInput=${(event) => setTyped(event.target.value)} /></div>`}
      <div class="field">
        <label for="try-model">${t.kinds.models.one}</label>
        <input id="try-model" list="try-models" required value=${model} onInput=${(event) => onModel(event.target.value)} />
        <datalist id="try-models">${names.map((name) => html`<option value=${name}></option>`)}</datalist>
      </div>
      <div class="field"><label for="try-prompt">${t.first.message}</label><textarea id="try-prompt" rows="2" value=${prompt} onInput=${(event) => setPrompt(event.target.value)}></textarea></div>
      <div><button type="submit" class="primary" disabled=${state.busy || !key || !model}>${t.first.send}</button></div>
      ${(state.text || state.busy) && html`<article class="turn assistant"><h3>${t.log.turn.assistant}</h3><pre aria-live="polite">${state.text}</pre></article>`}
      ${state.error && html`<p class="notice bad" role="alert">${state.error}</p>`}
      ${state.id && !state.busy && html`<p><a href=${`/ui/logs/${state.id}`}>${t.first.seeLog}</a></p>`}
    </form>
  <//>`;
}

const SNIPPETS = {
  curl: ({ url, key, model }) => `curl -N ${url}/v1/chat/completions \\
  -H "Authorization: Bearer ${key}" -H "Content-Type: application/json" \\
  -d '{"model": "${model}", "stream": true, "messages": [{"role": "user", "content": "Hello"}]}'`,
  Python: ({ url, key, model }) => `from openai import OpenAI

client = OpenAI(base_url="${url}/v1", api_key="${key}")
answer = client.chat.completions.create(
    model="${model}", messages=[{"role": "user", "content": "Hello"}]
)
print(answer.choices[0].message.content)`,
  JavaScript: ({ url, key, model }) => `import OpenAI from "openai";

const client = new OpenAI({ baseURL: "${url}/v1", apiKey: "${key}" });
const answer = await client.chat.completions.create({
  model: "${model}",
  messages: [{ role: "user", content: "Hello" }],
});
console.log(answer.choices[0].message.content);`,
  "Claude Code": ({ url, key, model }) => `export ANTHROPIC_BASE_URL=${url}
export ANTHROPIC_AUTH_TOKEN=${key}
claude --model ${model}`,
};

function Snippets({ url, plaintext, model }) {
  const [base, setBase] = useState(() => localStorage.getItem("relay-base-url") ?? url);
  const [which, setWhich] = useState("curl");
  const change = (event) => {
    setBase(event.target.value);
    localStorage.setItem("relay-base-url", event.target.value);
  };
  const given = { url: base.replace(/\/+$/, ""), key: plaintext ?? "$RELAY_KEY", model: model || "echo" };
  return html`<${Step} number="4" title=${t.first.snippets}>
    <div class="field"><label for="first-url">${t.first.url}</label><input id="first-url" value=${base} onInput=${change} /><span class="hint">${t.first.urlHint}</span></div>
    <div class="row" role="group" aria-label=${t.first.snippets}>
      ${Object.keys(SNIPPETS).map((name) => html`<button type="button" key=${name} aria-pressed=${which === name} onClick=${() => setWhich(name)}>${name}</button>`)}
    </div>
    <${Copyable} text=${SNIPPETS[which](given)} />
  <//>`;
}
