// Every view: where it is, what it is called, and the file that draws it, loaded when it is needed.
import { t } from "../strings.js";

/** Views of the navigation, in its order; `group` is the heading above them. */
export const VIEWS = [
  { path: "/", title: t.nav.overview, group: "operate" },
  { path: "/logs", title: t.nav.logs, group: "operate" },
  { path: "/explain", title: t.nav.explain, group: "operate" },
  ...Object.entries(t.kinds).map(([kind, names]) => ({
    path: `/${kind}`,
    title: names.many,
    group: "catalog",
  })),
  { path: "/plugins", title: t.nav.plugins, group: "system" },
  { path: "/settings", title: t.nav.settings, group: "system" },
  { path: "/audit", title: t.nav.audit, group: "system" },
  { path: "/master-key", title: t.nav.masterKey, group: "system" },
  { path: "/first-steps", title: t.nav.firstRun, group: "system" },
];

const KIND = Object.keys(t.kinds).join("|");

/** `[pattern, load]`; what the pattern captures are the parameters of the view. */
const ROUTES = [
  [/^\/$/, () => import("./overview.js")],
  [/^\/logs$/, () => import("./logs.js")],
  [/^\/logs\/(?<id>[^/]+)$/, () => import("./log_detail.js")],
  [/^\/explain$/, () => import("./explain.js")],
  [/^\/plugins$/, () => import("./plugins.js")],
  [/^\/settings$/, () => import("./settings.js")],
  [/^\/audit$/, () => import("./audit.js")],
  [/^\/master-key$/, () => import("./master_key.js")],
  [/^\/first-steps$/, () => import("./first_run.js")],
  [new RegExp(`^/(?<kind>${KIND})$`), () => import("./catalog_list.js")],
  [new RegExp(`^/(?<kind>${KIND})/new$`), () => import("./entity.js")],
  [new RegExp(`^/(?<kind>${KIND})/(?<id>[^/]+)$`), () => import("./entity.js")],
];

/** Loads the files of all views, so that each is there at once when it is chosen. */
export const loadViews = () => ROUTES.forEach(([, load]) => load().catch(() => {}));

/** The view at a path: `{ load, parameters }`, or null. */
export function findView(path) {
  for (const [pattern, load] of ROUTES) {
    const match = pattern.exec(path);
    if (match) return { load, parameters: { ...match.groups } };
  }
  return null;
}
