// The frame around every view: navigation, who is logged in, and what holds for the whole page.
import { html, classes, useEffect, useErrorBoundary, useLayoutEffect, useState } from "../core/html.js";
import { onReachable, post } from "../core/api.js";
import { setTimeZone, timeZone } from "../core/format.js";
import { askBeforeLeaving, leave, nameTab, navigate, useLocation } from "../core/router.js";
import { sessionState, onSession } from "../core/session.js";
import { listenForShortcuts } from "../core/shortcuts.js";
import { Login } from "../views/login.js";
import { VIEWS, findView } from "../views/index.js";
import { Busy, Empty, Failure } from "./bits.js";
import { Confirm } from "./dialog.js";
import { Palette, ShortcutList } from "./palette.js";
import { moveRow } from "./table.js";
import { Toasts } from "./toast.js";
import { t } from "../strings.js";

const MARK = new URL("../style/mark.svg", import.meta.url).pathname;

/** The whole page. */
export function Shell() {
  const [session, setSession] = useState(sessionState);
  const [reachable, setReachable] = useState(true);
  const [above, setAbove] = useState(null);
  const [menu, setMenu] = useState(false);
  const [leaving, setLeaving] = useState(null);
  const [, drawAgain] = useState(null);
  const place = useLocation();
  useEffect(() => {
    const update = () => setSession(sessionState());
    update(); // it may have changed before anybody listened
    return onSession(update);
  }, []);
  useEffect(() => onReachable(setReachable), []);
  useEffect(() => setMenu(false), [place.path]);
  useEffect(() => nameTab(titleOf(place.path)), [place.path]);
  useLayoutEffect(() => askBeforeLeaving((go) => setLeaving(() => go)), []);
  useLayoutEffect(
    () =>
      listenForShortcuts({
        palette: () => setAbove("palette"),
        help: () => setAbove("shortcuts"),
        move: moveRow,
        navigate,
      }),
    [],
  );
  const close = () => setAbove(null);
  if (!session.current) return html`${session.needed ? html`<${Login} />` : html`<${Busy} />`}<${Toasts} />`;
  return html`
    <a class="skip" href="#content">${t.skip}</a>
    ${!reachable && html`<div class="banner" role="alert">${t.unreachable}</div>`}
    <div class="shell">
      <${Side} open=${menu} path=${place.path} onPalette=${() => setAbove("palette")} onZone=${drawAgain} who=${session.current} />
      <main class="page" id="content" tabindex="-1">
        <button type="button" class="menu-button" aria-expanded=${menu} onClick=${() => setMenu(!menu)}>${t.menu}</button>
        <${Current} key=${place.path} path=${place.path} />
      </main>
    </div>
    ${session.needed && html`<${Login} again />`}
    ${leaving && html`<${Leave} go=${leaving} close=${() => setLeaving(null)} />`}
    ${above === "palette" && html`<${Palette} onClose=${close} />`}
    ${above === "shortcuts" && html`<${ShortcutList} onClose=${close} />`}
    <${Toasts} />
  `;
}

function titleOf(path) {
  const view = VIEWS.find((one) => path === one.path || (one.path !== "/" && path.startsWith(`${one.path}/`)));
  return view?.title;
}

/** Asks before what was typed is lost. */
function Leave({ go, close }) {
  const act = async () => {
    close();
    go();
  };
  return html`<${Confirm} title=${t.entity.leave} hint=${t.entity.leaveHint} action=${t.entity.leaveAction} cancel=${t.entity.stay} act=${act} onClose=${close} />`;
}

function Side({ open, path, onPalette, onZone, who }) {
  const groups = [...new Set(VIEWS.map((view) => view.group))];
  const here = (view) => path === view.path || (view.path !== "/" && path.startsWith(`${view.path}/`));
  const item = (view) => html`<li key=${view.path}>
    <a href=${`/ui${view.path}`} aria-current=${here(view) ? "page" : undefined}>${view.title}</a>
  </li>`;
  return html`<nav class=${classes("side", open && "open")} aria-label=${t.nav.label}>
    <a class="brand" href="/ui/"><img src=${MARK} alt="" />${t.product}</a>
    <button type="button" onClick=${onPalette}>${t.commands}<kbd>Ctrl K</kbd></button>
    ${groups.map(
      (group) => html`<h2 id=${`nav-${group}`}>${t.nav[group]}</h2>
        <ul aria-labelledby=${`nav-${group}`}>${VIEWS.filter((view) => view.group === group).map(item)}</ul>`,
    )}
    <div class="foot"><${Preferences} onZone=${onZone} /><${LogOut} who=${who} /></div>
  </nav>`;
}

function Preferences({ onZone }) {
  const [theme, setTheme] = useState(() => document.documentElement.dataset.theme ?? "system");
  const [zone, setZone] = useState(() => timeZone() ?? "");
  const chooseTheme = (event) => {
    const value = event.target.value;
    setTheme(value);
    if (value === "system") {
      delete document.documentElement.dataset.theme;
      localStorage.removeItem("relay-theme");
    } else {
      document.documentElement.dataset.theme = value;
      localStorage.setItem("relay-theme", value);
    }
  };
  const chooseZone = (event) => {
    setZone(event.target.value);
    setTimeZone(event.target.value);
    document.documentElement.dataset.zone = event.target.value; // which charts look at
    onZone(event.target.value);
  };
  return html`
    <select aria-label=${t.theme.label} value=${theme} onChange=${chooseTheme}>
      <option value="system">${t.theme.system}</option>
      <option value="light">${t.theme.light}</option>
      <option value="dark">${t.theme.dark}</option>
    </select>
    <select aria-label=${t.zone.label} value=${zone} onChange=${chooseZone}>
      <option value="">${t.zone.local}</option>
      <option value="UTC">${t.zone.utc}</option>
    </select>
  `;
}

function LogOut({ who }) {
  const act = async () => {
    await post("/auth/logout");
    location.assign("/ui/");
  };
  return html`<button type="button" class="quiet" onClick=${() => leave(act)}>${t.logOut} (${who.username})</button>`;
}

function Current({ path }) {
  const [view, setView] = useState(null);
  const [error, reset] = useErrorBoundary((problem) => console.error(problem));
  const [failed, setFailed] = useState(null);
  const found = findView(path);
  useLayoutEffect(() => {
    found?.load().then(
      (module) => setView(() => module.View),
      (problem) => setFailed(problem),
    );
  }, [path]);
  if (error || failed) return html`<${Failure} error=${{ message: t.failed }} retry=${failed ? () => location.reload() : reset} />`;
  if (!found) {
    return html`<${Empty} level="h1" title=${t.notFound.title} action=${html`<a href="/ui/">${t.notFound.back}</a>`}>${t.notFound.text}<//>`;
  }
  return view ? html`<${view} ...${found.parameters} />` : html`<${Busy} />`;
}
