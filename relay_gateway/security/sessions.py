"""Sessions: tokens, what is kept of them, and how long one lives."""

from __future__ import annotations

import hashlib
import hmac
import secrets

from relay_gateway.secret import Secret

COOKIE = "relay_session"
ABSOLUTE_SECONDS = 24 * 3600
IDLE_SECONDS = 2 * 3600
SEEN_SECONDS = 60
"""How precisely the last use is kept: one write a minute is enough to tell two hours."""
CLOCK_SKEW_SECONDS = 300
"""How far in the future a session may begin before the clock must have been set back."""


def is_alive(created_at: float, seen_at: float, now: float) -> bool:
    """Whether a session may still be used; all times are seconds since the epoch.

    One from the future may not: after the clock was set back it would outlive its day.
    """
    if max(created_at, seen_at) > now + CLOCK_SKEW_SECONDS:
        return False
    return now < created_at + ABSOLUTE_SECONDS and now < seen_at + IDLE_SECONDS


def mint_token() -> Secret:
    """A new session token of 256 random bits."""
    return Secret(secrets.token_urlsafe(32))


def token_hash(token: Secret) -> str:
    """The SHA-256 of a token in hex: all that is stored of it."""
    return hashlib.sha256(_bytes(token)).hexdigest()


def password_mark(token: Secret, stored_password: Secret) -> str:
    """What ties a session to the stored password of its user, so that a change of it ends all.

    The key is the token, which the database does not have: nothing can be tried against it.
    """
    return hmac.new(_bytes(token), _bytes(stored_password), hashlib.sha256).hexdigest()


def is_marked(mark: str, token: Secret, stored_password: Secret) -> bool:
    """Whether the stored password is still the one that the session with this ``mark`` began
    with."""
    return hmac.compare_digest(mark, password_mark(token, stored_password))


def _bytes(secret: Secret) -> bytes:
    return secret.reveal().encode("utf-8", "surrogatepass")
