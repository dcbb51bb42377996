// Logging in, as a page of its own or above what one was doing.
import { html, useState } from "../core/html.js";
import { get, post } from "../core/api.js";
import { sessionBegan } from "../core/session.js";
import { Dialog } from "../parts/dialog.js";
import { t } from "../strings.js";

const TOKEN_USER = "admin-token";

/** `again` is for a session that has ended while somebody was at work. */
export function Login({ again = false }) {
  if (!again) return html`<main class="login"><div class="box"><${LoginForm} title=${t.login.title} /></div></main>`;
  return html`<${Dialog} title=${t.login.again} onClose=${() => {}}>
    <div class="content"><${LoginForm} title=${t.login.again} hint=${t.login.againHint} /></div>
  <//>`;
}

function LoginForm({ title, hint }) {
  const [withToken, setWithToken] = useState(false);
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const submit = async (event) => {
    event.preventDefault();
    const given = new FormData(event.target);
    const username = withToken ? TOKEN_USER : given.get("username").trim();
    setBusy(true);
    setError(null);
    try {
      await post("/auth/login", { username, password: given.get("password").trim() });
      sessionBegan(await get("/auth/whoami"));
    } catch (problem) {
      setError(problem);
      setBusy(false);
    }
  };
  return html`<form class="stack" onSubmit=${submit} method="post">
    <h1>${title}</h1>
    ${hint && html`<p class="hint">${hint}</p>`}
    ${!withToken &&
    html`<div class="field">
      <label for="login-name">${t.login.username}</label>
      <input id="login-name" name="username" autocomplete="username" required autofocus />
    </div>`}
    <div class="field" key=${withToken}>
      <label for="login-password">${withToken ? t.login.token : t.login.password}</label>
      <input id="login-password" name="password" type="password" autocomplete="current-password" required autofocus=${withToken} />
      ${withToken && html`<span class="hint">${t.login.tokenHint}</span>`}
    </div>
    ${error && html`<p class="notice bad" role="alert">${error.message}</p>`}
    <button type="submit" class="primary" disabled=${busy}>${t.login.submit}</button>
    <button type="button" class="quiet" onClick=${() => setWithToken(!withToken)}>
      ${withToken ? t.login.withPassword : t.login.withToken}
    </button>
  </form>`;
}
