// Who is logged in, and what happens when nobody is any more.

/** `{ username, method, expiresAt }`, or null before anybody has logged in. */
let current = null;
let ended = null;
const listeners = new Set();

/** The session as it is known now; `needed` is true while somebody must log in. */
export const sessionState = () => ({ current, needed: ended !== null });

/** Calls `listener()` after every change of `sessionState()`. */
export function onSession(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

const tell = () => listeners.forEach((listener) => listener());

/** Waits until there is a session again. */
export function sessionEnded() {
  if (ended === null) {
    let resume;
    const promise = new Promise((resolve) => (resume = resolve));
    ended = { promise, resume };
    tell();
  }
  return ended.promise;
}

/** Says who is logged in; requests that have waited for that go on. */
export function sessionBegan(who) {
  current = who;
  const waiting = ended;
  ended = null;
  tell();
  waiting?.resume();
}
