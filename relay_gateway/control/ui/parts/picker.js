// Choosing an entity by its name, where the API wants its id.
import { html, useEffect, useId, useRef, useState } from "../core/html.js";
import { get } from "../core/api.js";
import { entityById, knowEntity } from "../core/names.js";
import { useResource, useSettled } from "../core/resource.js";
import { t } from "../strings.js";

/** The name of an entity, as a link to it. */
export function EntityName({ plural, id, link = true }) {
  const { data } = useResource(() => (id ? entityById(plural, id) : Promise.resolve(null)), [plural, id]);
  if (!id) return "–";
  const text = data ? data.metadata.displayName : data === null ? id : "…";
  return link ? html`<a href=${`/ui/${plural}/${id}`}>${text}</a>` : html`<span>${text}</span>`;
}

async function search(plural, text, signal) {
  const page = await get(`/${plural}`, { q: text, limit: 20, sort: "displayName" }, signal);
  return { text, items: page.items };
}

/** Whether an entity that was found for an older text still fits. */
function fits({ metadata }, text) {
  return `${metadata.displayName} ${metadata.slug}`.toLowerCase().includes(text.toLowerCase());
}

/** A field that searches entities of one kind while one types, and gives the id of the chosen. */
export function Picker({ plural, value, onChange, id, invalid, describedBy, clearable = true }) {
  const [typed, setTyped] = useState("");
  const [open, setOpen] = useState(false);
  const [at, setAt] = useState(0);
  const list = useId();
  const root = useRef(null);
  const chosen = useResource(() => (value ? entityById(plural, value) : Promise.resolve(null)), [plural, value]);
  const wanted = useSettled(typed, 120);
  const [entered, setEntered] = useState(false);
  const found = useResource((signal) => (open ? search(plural, wanted, signal) : Promise.resolve(null)), [plural, wanted, open]);
  const current = found.data?.text === typed;
  const options = current ? found.data.items : (found.data?.items ?? []).filter((one) => fits(one, typed));
  const choose = (entity) => {
    knowEntity(plural, entity);
    onChange(entity.metadata.id);
    setOpen(false);
    setTyped("");
    setEntered(false);
  };
  // Enter was pressed before anything was found: the first that is found was meant.
  useEffect(() => {
    if (entered && open && options[0]) choose(options[0]);
  }, [entered, open, options[0]?.metadata.id]);
  const keys = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      setOpen(true);
      setAt(Math.min(options.length - 1, Math.max(0, at + step)));
    } else if (event.key === "Enter" && open && (options[at] || (typed && !current))) {
      event.preventDefault();
      if (options[at]) choose(options[at]);
      else setEntered(true);
    } else if (event.key === "Escape" && open) {
      event.stopPropagation();
      event.preventDefault();
      setOpen(false);
    }
  };
  const left = (event) => root.current.contains(event.relatedTarget) || setOpen(false);
  const shown = open ? typed : (chosen.data?.metadata.displayName ?? (value || ""));
  return html`<div class="combo" ref=${root} onFocusOut=${left}>
    <div class="row nowrap">
      <input
        id=${id}
        role="combobox"
        autocomplete="off"
        aria-expanded=${open}
        aria-controls=${list}
        aria-activedescendant=${open && options[at] ? `${list}-${at}` : undefined}
        aria-invalid=${invalid || undefined}
        aria-describedby=${describedBy}
        placeholder=${t.form.search}
        value=${shown}
        onFocus=${() => setOpen(true)}
        onClick=${() => setOpen(true)}
        onInput=${(event) => {
          setOpen(true);
          setTyped(event.target.value);
          setAt(0);
          setEntered(false);
        }}
        onKeyDown=${keys}
      />
      ${clearable && value && html`<button type="button" class="quiet icon" aria-label=${t.remove} onClick=${() => onChange(null)}>×</button>`}
    </div>
    <ul class="options" role="listbox" id=${list} hidden=${!open} aria-label=${t.form.choose}>
      ${options.map(
        (entity, index) => html`<li
          key=${entity.metadata.id}
          id=${`${list}-${index}`}
          class="option"
          role="option"
          aria-selected=${index === at}
          onMouseDown=${(event) => {
            event.preventDefault();
            choose(entity);
          }}
        >
          <span>${entity.metadata.displayName}</span><span class="hint">${entity.metadata.slug}</span>
        </li>`,
      )}
      ${current && !options.length && html`<li class="option hint" role="option" aria-disabled="true" aria-selected="false">${t.form.nothing}</li>`}
    </ul>
  </div>`;
}
