// The command palette, and the list of shortcuts.
import { html, useEffect, useState } from "../core/html.js";
import { get } from "../core/api.js";
import { useResource, useSettled } from "../core/resource.js";
import { navigate } from "../core/router.js";
import { Dialog } from "./dialog.js";
import { VIEWS } from "../views/index.js";
import { t } from "../strings.js";

const KINDS = Object.keys(t.kinds);
const REQUEST_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

async function findEntities(text, signal) {
  if (text.length < 2) return [];
  const pages = await Promise.all(KINDS.map((kind) => get(`/${kind}`, { q: text, limit: 5 }, signal)));
  return pages.flatMap((page, index) =>
    page.items.map((one) => ({
      title: one.metadata.displayName,
      hint: t.kinds[KINDS[index]].one,
      path: `/${KINDS[index]}/${one.metadata.id}`,
    })),
  );
}

/** Entities that match `text`: those found for it, and until then what fits of those found before. */
function fitting(found, text) {
  if (!found || found.text === text) return found?.entities ?? [];
  return found.entities.filter((one) => one.title.toLowerCase().includes(text.toLowerCase()));
}

function matching(text) {
  const wanted = text.toLowerCase();
  const views = VIEWS.map((view) => ({ title: view.title, hint: "", path: view.path }));
  const creating = KINDS.map((kind) => ({ title: t.entity.create(t.kinds[kind].one), hint: "", path: `/${kind}/new` }));
  const found = [...views, ...creating].filter((one) => one.title.toLowerCase().includes(wanted));
  return REQUEST_ID.test(text) ? [{ title: text, hint: t.nav.logs, path: `/logs/${text}` }, ...found] : found;
}

/** Goes anywhere by name. */
export function Palette({ onClose }) {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const [entered, setEntered] = useState(false);
  const wanted = text.trim();
  const settled = useSettled(wanted, 120);
  const found = useResource(async (signal) => ({ text: settled, entities: await findEntities(settled, signal) }), [settled]);
  const options = [...matching(wanted), ...fitting(found.data, wanted)].slice(0, 40);
  const type = (event) => {
    setText(event.target.value);
    setAt(0);
    setEntered(false);
  };
  const go = (option) => {
    onClose();
    navigate(option.path);
  };
  // Enter was pressed before anything was found: the first that is found was meant.
  useEffect(() => {
    if (entered && options[0]) go(options[0]);
  }, [entered, options[0]?.path]);
  const keys = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      setAt(Math.min(options.length - 1, Math.max(0, at + step)));
    } else if (event.key === "Enter") {
      event.preventDefault();
      if (options[at]) go(options[at]);
      else setEntered(true);
    }
  };
  return html`<${Dialog} title=${t.palette.title} kind="palette" onClose=${onClose}>
    <div class="content">
      <input autofocus role="combobox" aria-expanded="true" aria-controls="palette-options" aria-label=${t.palette.hint}
        aria-activedescendant=${options[at] ? `palette-${at}` : undefined}
        placeholder=${t.palette.hint} value=${text} onInput=${type} onKeyDown=${keys} />
      <ul class="options" role="listbox" id="palette-options" aria-label=${t.palette.title}>
        ${options.map(
          (option, index) => html`<li key=${option.path} id=${`palette-${index}`} class="option" role="option" aria-selected=${index === at}
            onMouseMove=${() => setAt(index)} onClick=${() => go(option)}>
            <span>${option.title}</span><span class="hint">${option.hint}</span>
          </li>`,
        )}
      </ul>
    </div>
  <//>`;
}

const KEYS = [
  [["Ctrl", "K"], t.shortcuts.palette],
  [["/"], t.shortcuts.search],
  [["N"], t.shortcuts.create],
  [["J"], t.shortcuts.move, ["K"]],
  [["Enter"], t.shortcuts.open],
  [["Ctrl", "S"], t.shortcuts.save],
  [["G"], t.shortcuts.go, ["O"], ["L"], ["R"], ["M"], ["H"]],
  [["?"], t.shortcuts.help],
];

/** Every shortcut there is. */
export function ShortcutList({ onClose }) {
  const shown = (keys) => keys.map((key, index) => html`${index ? " + " : ""}<kbd>${key}</kbd>`);
  return html`<${Dialog} title=${t.shortcuts.title} onClose=${onClose}>
    <div class="content">
      <h2>${t.shortcuts.title}</h2>
      <dl class="facts">
        ${KEYS.map(([keys, what, ...others]) => html`<dt>${shown(keys)} ${others.map((one) => html` <kbd>${one}</kbd>`)}</dt><dd>${what}</dd>`)}
      </dl>
      <div class="actions"><button type="button" autofocus onClick=${onClose}>${t.close}</button></div>
    </div>
  <//>`;
}
