// Begins: who is logged in decides what is seen first.
import { html, render } from "./core/html.js";
import { get } from "./core/api.js";
import { currentLocation, startRouter } from "./core/router.js";
import { sessionBegan } from "./core/session.js";
import { Shell } from "./parts/shell.js";
import { findView, loadViews } from "./views/index.js";

/** When the first view and its data are surely there. */
const PREFETCH_AFTER_MS = 1500;

startRouter();
// Beside the question who is logged in; what goes wrong is told when the view is shown.
findView(currentLocation().path)?.load().catch(() => {});
const app = document.getElementById("app");
app.replaceChildren(); // the name that is seen while this program is loaded
render(html`<${Shell} />`, app);

/** Asks until the gateway answers: a page that is opened while it starts need not be opened again. */
async function begin() {
  for (let wait = 500; ; wait = Math.min(5000, wait * 2)) {
    try {
      sessionBegan(await get("/auth/whoami"));
      setTimeout(loadViews, PREFETCH_AFTER_MS);
      return;
    } catch (error) {
      console.warn(error.message);
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }
}

begin();
