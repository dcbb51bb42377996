"""Logging in and out: passwords, throttling and the sessions that come of it."""

from __future__ import annotations

import asyncio
import logging
import math

import msgspec

from relay_gateway.control.problems import RefusedError
from relay_gateway.control.services import ControlServices
from relay_gateway.control.unauthenticated import UnauthenticatedError
from relay_gateway.secret import Secret
from relay_gateway.security.access import TOKEN_USER
from relay_gateway.security.admin import AdminToken
from relay_gateway.security.passwords import PasswordBook, is_hash
from relay_gateway.security.sessions import (
    ABSOLUTE_SECONDS,
    SEEN_SECONDS,
    is_alive,
    is_marked,
    mint_token,
    password_mark,
    token_hash,
)
from relay_gateway.security.throttle import (
    LONGEST_DELAY_SECONDS,
    WINDOW_SECONDS,
    LoginThrottle,
    throttle_keys,
    wait_seconds,
)
from relay_gateway.storage.audit import AuditEvent
from relay_gateway.storage.sessions import KIND, SessionRow

MAX_TOKEN_LENGTH = 128
CHECKED_AT_ONCE = 2
MAX_WAITING = 32

logger = logging.getLogger(__name__)


class Login(msgspec.Struct, frozen=True):
    """A new session: what the browser gets, and when it ends in seconds since the epoch."""

    token: Secret
    expires_at: int


class Sessions:
    """The sessions of one control plane, and who may begin one."""

    def __init__(self, services: ControlServices) -> None:
        self._store = services.sessions
        self._failures = services.login_failures
        self._clock = services.clock
        self._book = PasswordBook(services.users)
        self._token = services.admin_token
        self._admin = AdminToken(services.admin_token) if services.admin_token else None
        self._throttle = LoginThrottle(services.clock.monotonic)
        self._checking = asyncio.Semaphore(CHECKED_AT_ONCE)
        self._waiting = 0
        for name, stored in services.users.items():
            if not is_hash(stored):
                logger.warning(
                    "the password of user %r is configured as plain text, which is deprecated; "
                    "replace it with the output of `relay-gateway users hash-password`",
                    name,
                )

    async def log_in(
        self, username: str, password: Secret, address: str, presented: Secret | None
    ) -> Login:
        """A new session for whoever knows the password; the one ``presented`` ends with it.

        The admin token is the password of ``TOKEN_USER``, so that a browser need not keep it.
        Raises :class:`UnauthenticatedError`, and :class:`RefusedError` (429) after too many
        failures.
        """
        wait = self._throttle.begin(username, address)
        if wait is not None:
            raise _too_many(wait)
        try:
            await self._wait_for_others(username, address)
            known = await self._verify(username, password)
            stored = self._stored(username) if known else None
            if stored is None:
                await self._fail(username, address)
                raise UnauthenticatedError(self._refusal(), code="invalid_credentials")
            login = await self._begin(username, stored, presented)
            await self._failures.forget(throttle_keys(username, address)[0])
        except UnauthenticatedError:
            raise
        except BaseException:
            # Nothing was decided about the password: the attempt is not held against anybody.
            self._throttle.withdraw(username, address, succeeded=False)
            raise
        self._throttle.withdraw(username, address, succeeded=True)
        return login

    async def _wait_for_others(self, username: str, address: str) -> None:
        """Raises :class:`RefusedError` (429) after too many failures on all instances together."""
        now = self._clock.time()
        found = await self._failures.of(throttle_keys(username, address), now, WINDOW_SECONDS)
        wait = max((wait_seconds(moments, now) for moments in found.values()), default=0.0)
        if wait > 0:
            raise _too_many(min(wait, LONGEST_DELAY_SECONDS))

    async def _fail(self, username: str, address: str) -> None:
        event = AuditEvent(action="login-failed", kind=KIND, target=username)
        keys = throttle_keys(username, address)
        await self._failures.add(keys, self._clock.time(), WINDOW_SECONDS, event)

    async def find(self, token: Secret) -> SessionRow:
        """The session with this token, seen now. Raises :class:`UnauthenticatedError`."""
        if len(token.reveal()) > MAX_TOKEN_LENGTH:
            raise _ended()
        session = await self._store.find(token_hash(token))
        if session is None:
            raise _ended()
        now = int(self._clock.time())
        stored = self._stored(session.username)
        valid = stored is not None and is_marked(session.password_mark, token, stored)
        if not valid or not is_alive(session.created_at, session.seen_at, now):
            await self._store.end(session.token_hash)
            raise _ended()
        if now >= session.seen_at + SEEN_SECONDS:
            await self._store.see(session.token_hash, now)
        return session

    async def log_out(self, session: str | None, username: str, *, everywhere: bool) -> int:
        """Ends ``session``, or every one of ``username``; how many there were. Who comes without a
        session has the admin token, which ends those of everybody."""
        if everywhere:
            return await self._store.log_out_everywhere(username if session else None)
        return await self._store.log_out(session, username) if session else 0

    async def _begin(self, username: str, stored: Secret, presented: Secret | None) -> Login:
        token, now = mint_token(), int(self._clock.time())
        row = SessionRow(token_hash(token), username, password_mark(token, stored), now, now)
        replaced = token_hash(presented) if presented is not None else None
        await self._store.begin(row, replaces=replaced, created_before=now - ABSOLUTE_SECONDS)
        return Login(token, now + ABSOLUTE_SECONDS)

    def _stored(self, username: str) -> Secret | None:
        return self._token if username == TOKEN_USER else self._book.stored(username)

    async def _verify(self, username: str, password: Secret) -> bool:
        """In a thread, and few at once: each takes a processor for a quarter of a second."""
        if username == TOKEN_USER:
            return self._admin is not None and self._admin.matches(password.reveal())
        if self._waiting >= MAX_WAITING:
            raise _too_many(1.0)
        self._waiting += 1
        try:
            async with self._checking:
                return await asyncio.to_thread(self._book.verify, username, password)
        finally:
            self._waiting -= 1

    def _refusal(self) -> str:
        if self._book:
            return "user name or password is wrong"
        return (
            "user name or password is wrong; no user has a password here yet: set "
            f"RELAY_ADMIN_PASSWORD, or log in as {TOKEN_USER} with the admin token"
        )


def _ended() -> UnauthenticatedError:
    return UnauthenticatedError("this session has ended; log in again")


def _too_many(wait: float) -> RefusedError:
    seconds = math.ceil(wait)
    return RefusedError(
        429,
        "too_many_logins",
        f"too many failed logins; try again in {seconds} s",
        headers={"Retry-After": str(seconds)},
    )
