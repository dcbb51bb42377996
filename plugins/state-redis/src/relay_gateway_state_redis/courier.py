"""Takes calls to Redis and back, those of one moment together.

A caller who goes away leaves the connection as it is: the answers are read in their order all the
same, and nobody gets another one's.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any

from redis.exceptions import AuthenticationError, NoScriptError

from relay_gateway.errors import SecretError, StorageUnavailableError
from relay_gateway_state_redis.connect import Client, disconnect
from relay_gateway_state_redis.credentials import Login
from relay_gateway_state_redis.scripts import Call

MOST_WAITING = 10_000
BATCH = 64
"""Calls that go together: so many take Redis about a millisecond, in which it does nothing else."""


HINTS = {
    "AuthenticationError": "the account or its password is refused; see [state_stores.redis]",
    "AuthenticationWrongNumberOfArgsError": "the server wants another account; see username",
    "NoPermissionError": "the account may not do what the scripts do; docs say what it needs",
    "OutOfMemoryError": "its memory is full; give it more, and the policy noeviction",
    "MasterNotFoundError": "no sentinel names a master of this service",
    "ReadOnlyError": "it is a replica",
}
Waiting = tuple[Call, "asyncio.Future[Any]"]


class Courier:
    """Sends calls over at most ``lanes`` connections of ``client``. ``place`` is for messages."""

    def __init__(self, client: Client, login: Login | None, place: str, lanes: int) -> None:
        self._client = client
        self._login = login
        self._place = place
        self._lanes = lanes
        self._queue: deque[Waiting] = deque()
        self._trips: set[asyncio.Task[None]] = set()
        self._closed = False

    async def ask(self, call: Call) -> Any:
        """The answer. Raises :class:`StorageUnavailableError` when there is none."""
        if self._closed:
            raise StorageUnavailableError("the store is closed")
        if len(self._queue) >= MOST_WAITING:
            raise StorageUnavailableError(f"{MOST_WAITING} calls are waiting for {self._place}")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        self._queue.append((call, answer))
        if len(self._trips) < self._lanes:
            # It begins after the others of this moment have asked, too.
            trip = loop.create_task(self._travel())
            self._trips.add(trip)
            trip.add_done_callback(self._trips.discard)
        return await answer

    async def aclose(self) -> None:
        """Ends all calls and connections."""
        self._closed = True
        trips = tuple(self._trips)
        for trip in trips:
            trip.cancel()
        await asyncio.gather(*trips, return_exceptions=True)
        self._refuse(self._load(len(self._queue)), "the store was closed")
        await disconnect(self._client)

    async def _travel(self) -> None:
        while load := self._load(BATCH):
            try:
                await self._deliver(load)
            except Exception as error:  # noqa: BLE001 - whatever it is, the callers must know
                if isinstance(error, AuthenticationError) and self._login is not None:
                    self._login.doubt()
                self._refuse(load, _reason(error), error)
            finally:
                self._refuse(load, "the call was not finished")

    def _load(self, most: int) -> list[Waiting]:
        load: list[Waiting] = []
        while self._queue and len(load) < most:
            call, answer = self._queue.popleft()
            if not answer.done():
                load.append((call, answer))
        return load

    async def _deliver(self, load: Sequence[Waiting]) -> None:
        answers = await self._send([call.by_digest() for call, _ in load])
        unknown = [at for at, answer in enumerate(answers) if isinstance(answer, NoScriptError)]
        if unknown:
            again = await self._send([load[at][0].by_text() for at in unknown])
            for at, answer in zip(unknown, again, strict=True):
                answers[at] = answer
        for waiting, answer in zip(load, answers, strict=True):
            if isinstance(answer, Exception):
                self._refuse([waiting], _reason(answer), answer)
            elif not waiting[1].done():
                waiting[1].set_result(answer)

    async def _send(self, commands: Sequence[tuple[str | int, ...]]) -> list[Any]:
        pipeline: Any = self._client.pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command)
        answers: list[Any] = await pipeline.execute(raise_on_error=False)
        return answers

    def _refuse(self, load: Sequence[Waiting], reason: str, cause: Exception | None = None) -> None:
        for _, answer in load:
            if not answer.done():
                refusal = StorageUnavailableError(f"Redis at {self._place}: {reason}")
                refusal.__cause__ = cause
                answer.set_exception(refusal)


def _reason(error: Exception) -> str:
    # What Redis and its client say may quote a command or a URL.
    kind = type(error).__name__
    if isinstance(error, SecretError):
        return f"its password cannot be had: {error}"
    hint = HINTS.get(kind)
    return kind if hint is None else f"{kind}: {hint}"
