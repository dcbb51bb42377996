"""A database from its opening to its closing: its store, its upkeep, and the work on it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Generic, Protocol, TypeVar

from relay_gateway.errors import StorageUnavailableError
from relay_gateway_log_database.engine import unavailable
from relay_gateway_log_database.upkeep import Step, Upkeep
from relay_gateway_log_database.work import Work

T = TypeVar("T")


class Store(Protocol):
    """What is opened: tables of one database."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """What is done in the background."""

    async def aclose(self) -> None:
        """Closes all connections."""


StoreT = TypeVar("StoreT", bound=Store)


class Opening(Generic[StoreT]):
    """Opens a store as often as asked, and closes it once nothing runs on it any more.

    ``section`` is where its settings are, which messages name.
    """

    def __init__(
        self, section: str, open_store: Callable[[], Awaitable[StoreT]], logger: logging.Logger
    ) -> None:
        self._section = section
        self._open_store = open_store
        self._logger = logger
        self._work = Work()
        self._store: StoreT | None = None
        self._upkeep: Upkeep | None = None

    @property
    def store(self) -> StoreT:
        """The store. Raises :class:`StorageUnavailableError` unless it is open."""
        return _opened(self._store)

    @property
    def upkeep(self) -> Upkeep:
        """What keeps the store in order. Raises like :attr:`store`."""
        return _opened(self._upkeep)

    async def complete(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs ``work`` to its end, also when nobody waits for it any more.

        Raises :class:`StorageUnavailableError` when the database cannot be asked.
        """
        return await self._work.complete(self._told(work))

    async def aopen(self) -> None:
        """Connects and makes the tables where they are missing; may be tried again."""
        await self.aclose()
        await self.complete(self._open())

    async def aclose(self) -> None:
        """Closes all connections, once what still runs on them has ended."""
        await self._work.ended()  # an opening that was given up may only now be done
        upkeep, self._upkeep = self._upkeep, None
        if upkeep is not None:
            await upkeep.aclose()
            await self._work.ended()
        store, self._store = self._store, None
        if store is not None:
            await store.aclose()

    async def _open(self) -> None:
        self._store = await self._open_store()
        self._upkeep = Upkeep(self._store.steps, self._work.complete, self._logger)
        self._upkeep.start()

    async def _told(self, work: Coroutine[Any, Any, T]) -> T:
        with unavailable(self._section):
            return await work


def _opened(part: T | None) -> T:
    if part is None:
        raise StorageUnavailableError("the database is not open: see `relay-gateway plugins list`")
    return part
