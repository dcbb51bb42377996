"""Listening to PostgreSQL: a connection of its own on which other instances' writes are heard.

What is heard only makes things faster. Nothing depends on it: a notification that is lost is found
by the next poll.
"""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncEngine

from relay_gateway.errors import StorageUnavailableError
from relay_gateway.storage.engine import reading, session_target
from relay_gateway.storage.revision import CHANNEL

HEARTBEAT_SECONDS = 5.0
ANSWER_SECONDS = 5.0
"""How long the server may take to connect and to answer."""
ECHO_SECONDS = 2.0
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0
POOLED_PAUSE = 60.0
"""How long until another try where notifications do not come through."""

_log = logging.getLogger(__name__)


class _PooledError(Exception):
    """Notifications do not come through: something pools connections by transaction."""


class CatalogListener:
    """Hears of writes, over one connection that is made anew for as long as it takes.

    ``heard`` is called with each revision that is announced; ``listening`` each time that the
    connection is there, because what was announced before was not heard.
    """

    def __init__(
        self,
        engine: AsyncEngine,
        database_url: str,
        heard: Callable[[int], None],
        listening: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._database_url = database_url
        self._heard = heard
        self._listening = listening
        self._warned = False
        self.connected = False
        self.trouble: str | None = None
        """Why nothing is heard, after it was tried."""

    async def run(self) -> None:
        """Listens until it is cancelled."""
        pause = FIRST_PAUSE
        while True:
            try:
                await self._listen()
            except _PooledError:
                self.trouble = "notifications do not come through"
                self._warn_of_pooling()
                pause = POOLED_PAUSE
            except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError,
                    StorageUnavailableError) as error:  # fmt: skip
                self._report(type(error).__name__)
            if self.connected:
                self.connected, pause = False, FIRST_PAUSE
            await asyncio.sleep(random.uniform(0.5, 1.0) * pause)  # noqa: S311 - jitter
            pause = min(2 * pause, LONGEST_PAUSE) if pause < POOLED_PAUSE else POOLED_PAUSE

    async def _listen(self) -> None:
        """Listens on one connection until that is lost, which raises."""
        async with self._connection() as connection:
            lost = asyncio.Event()
            connection.add_termination_listener(lambda _: lost.set())
            await connection.add_listener(CHANNEL, self._on_notification)
            await self._prove_hearing(connection)
            self.connected, self.trouble = True, None
            # After LISTEN: whatever is not announced from here on is read by who is told now.
            self._listening()
            while True:
                await _until_lost(lost)
                # A cut cable says nothing; only who asks finds out.
                await connection.execute("SELECT 1", timeout=ANSWER_SECONDS)

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Any]:
        connection = await asyncpg.connect(
            self._database_url,
            timeout=ANSWER_SECONDS,
            command_timeout=ANSWER_SECONDS,
            # A standby takes no LISTEN.
            target_session_attrs=session_target(self._database_url),
        )
        try:
            yield connection
        finally:
            # No farewell: it would wait for a server that may be gone.
            connection.terminate()

    async def _prove_hearing(self, connection: Any) -> None:
        """Raises unless something said on another connection is heard on this one."""
        channel = f"relay_echo_{secrets.token_hex(8)}"
        echo = asyncio.Event()
        await connection.add_listener(channel, lambda *_: echo.set())
        async with asyncio.timeout(ANSWER_SECONDS), reading(self._engine) as other:
            await other.execute(select(func.pg_notify(channel, "")))
        try:
            async with asyncio.timeout(ECHO_SECONDS):
                await echo.wait()
        except TimeoutError as error:
            raise _PooledError from error
        await connection.execute(f'UNLISTEN "{channel}"')

    def _on_notification(self, _connection: Any, _pid: int, _channel: str, payload: str) -> None:
        if payload.isdecimal():
            self._heard(int(payload))

    def _report(self, reason: str) -> None:
        if self.trouble != reason:
            _log.info("notifications are not heard right now: %s", reason)
        self.trouble = reason

    def _warn_of_pooling(self) -> None:
        if not self._warned:
            self._warned = True
            _log.warning(
                "notifications of the database do not come through, as behind a pooler in "
                "transaction mode; changes are seen by polling, within about a second"
            )


async def _until_lost(lost: asyncio.Event) -> None:
    """Waits for the next heartbeat; raises when the connection is lost before."""
    try:
        async with asyncio.timeout(HEARTBEAT_SECONDS):
            await lost.wait()
    except TimeoutError:
        return
    raise ConnectionResetError("the server closed the connection")
