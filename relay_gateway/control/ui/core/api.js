// The control API, as any other client would call it.
import { sessionEnded } from "./session.js";
import { t } from "../strings.js";

/** An answer that is not a success, or none at all (`status` 0). */
export class ApiError extends Error {
  constructor(status, { code = "", message = "", fields = [], referrers = [] } = {}, retryAfter = 0) {
    super(message);
    this.status = status;
    this.code = code;
    this.fields = fields;
    this.referrers = referrers;
    this.retryAfter = retryAfter;
  }
}

const listeners = new Set();
let reachable = true;

/** Calls `listener(reachable)` whenever the gateway stops or begins to answer. */
export function onReachable(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function noteReachable(now) {
  if (now === reachable) return;
  reachable = now;
  for (const listener of listeners) listener(now);
  if (!now) askAgain();
}

/** Asks until the gateway answers, so that what was refused meanwhile can be loaded by itself. */
function askAgain() {
  setTimeout(() => {
    if (!reachable) fetch("/healthz").then(() => noteReachable(true), askAgain);
  }, 1000);
}

/** `/hosts?limit=10` of a path and an object; what is null, undefined or empty is left out. */
export function address(path, query = {}) {
  const pairs = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== "") pairs.append(name, String(one));
    }
  }
  const text = pairs.toString();
  return text ? `${path}?${text}` : path;
}

/**
 * One request; gives `{ status, headers, body }`. Where the session has ended, it waits until there
 * is a new one and is then sent again, so that nothing that was typed is lost.
 * Throws `ApiError`, and what `signal` says when it aborts.
 */
export async function request(method, path, { body, query, headers = {}, signal } = {}) {
  for (;;) {
    const answer = await send(method, address(path, query), body, headers, signal);
    const own = path === "/auth/login";
    if (answer.status === 401 && !own) {
      await sessionEnded();
      continue;
    }
    const content = await read(answer);
    if (!answer.ok) {
      const error = content?.error ?? { message: t.answeredWith(answer.status) };
      throw new ApiError(answer.status, error, Number(answer.headers.get("retry-after")) || 0);
    }
    return { status: answer.status, headers: answer.headers, body: content };
  }
}

async function send(method, url, body, headers, signal) {
  const options = { method, headers: { accept: "application/json", ...headers }, signal };
  if (body !== undefined) {
    options.headers["content-type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  try {
    const answer = await fetch(url, options);
    noteReachable(true);
    return answer;
  } catch (error) {
    if (error.name === "AbortError") throw error;
    noteReachable(false);
    throw new ApiError(0, { code: "unreachable", message: t.unanswered });
  }
}

async function read(answer) {
  const text = await answer.text();
  if (!text) return null;
  const type = answer.headers.get("content-type") ?? "";
  return type.includes("json") ? JSON.parse(text) : text;
}

const body = (promise) => promise.then((answer) => answer.body);

/** The body of `GET path`. */
export const get = (path, query, signal) => body(request("GET", path, { query, signal }));
/** The body of the answer to `POST path`. */
export const post = (path, content, options = {}) =>
  body(request("POST", path, { body: content ?? {}, ...options }));
/** The body of the answer to `PUT path`. */
export const put = (path, content, options = {}) =>
  body(request("PUT", path, { body: content, ...options }));
/** The body of the answer to `DELETE path`. */
export const remove = (path, options = {}) => body(request("DELETE", path, options));
