"""The store of several workers on one machine: exact, and still without waiting."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from relay_gateway.errors import StateUnavailableError
from relay_gateway.limits.counters import WINDOWED, Counter
from relay_gateway.limits.immediate_store import ImmediateStore
from relay_gateway.limits.shared_gauge import GENERATION, SharedGauge
from relay_gateway.limits.table import SLOTS, Table, digest_of
from relay_gateway.plugin.base import PluginConfig
from relay_gateway.plugin.context import PluginContext
from relay_gateway.plugin.state import Grant, Hold

REAP_SECONDS: Final = 0.5
"""How often at most to look which processes have ended."""
MAX_KNOWN: Final = 65_536

_CODES: Final = {name: index for index, name in enumerate((*WINDOWED, "gauge"), start=1)}


class _Known(NamedTuple):
    """Where this process has found a counter."""

    counter: Counter
    place: int
    digest: tuple[int, int]
    code: int


class SharedStore(ImmediateStore):
    """Counts in a table in ``directory``, which up to ``rows`` processes share. Open before use."""

    name = "memory"
    shared = True
    moves = True

    def __init__(
        self,
        config: PluginConfig,
        context: PluginContext,
        *,
        directory: Path,
        rows: int,
        slots: int = SLOTS,
    ) -> None:
        super().__init__(config, context)
        self._directory = directory
        self._rows = rows
        self._slots = slots
        self._known: dict[str, _Known] = {}
        self._forget_at = MAX_KNOWN
        self._row = -1
        self._row_file = -1
        self._reap_at = 0.0
        self._table: Table

    async def aopen(self) -> None:
        """Maps the table and takes a row of it. Raises :class:`StateUnavailableError` when all
        rows are taken."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._table = Table(self._directory, self._rows, self._offset, self._slots)
        self._offset = self._table.offset
        for row in range(self._rows):
            file = self._open_row(row)
            if _try_lock(file):
                self._row, self._row_file = row, file
                self._table.generations()[row] += GENERATION
                return
            os.close(file)
        raise StateUnavailableError(
            f"all {self._rows} rows of the table of limits in {self._directory} are taken: does "
            "another gateway use this data directory?"
        )

    async def aclose(self) -> None:
        """Gives the row back; what is still held counts no more."""
        if self._row_file >= 0:
            os.close(self._row_file)
            self._table.close()
            self._row_file = -1
            self._known.clear()
            self._claims.clear()

    def reserve_now(self, request_id: str, holds: Sequence[Hold]) -> Grant:
        """Takes all ``holds`` or none. Raises :class:`StateBusyError` while another process keeps
        the table to itself."""
        self._table.lock()
        try:
            return super().reserve_now(request_id, holds)
        finally:
            self._table.unlock()

    def settle_now(self, request_id: str, holds: Sequence[Hold], used: Sequence[int]) -> None:
        """Corrects each hold of the reservation. Raises :class:`StateBusyError` as
        :meth:`reserve_now`."""
        if request_id not in self._claims:
            return
        self._table.lock()
        try:
            super().settle_now(request_id, holds, used)
        finally:
            self._table.unlock()

    def counters(self, holds: Sequence[Hold], now: float) -> list[Counter]:
        """The counter of each of ``holds``; call with the lock only."""
        return [self._counter(hold, now) for hold in holds]

    def _counter(self, hold: Hold, now: float) -> Counter:
        known = self._known.get(hold.key)
        table = self._table
        if (
            known is None
            or known.counter.strategy != hold.strategy
            or not table.holds(known.place, known.digest, known.code)
        ):
            known = self._find(hold, now)
        table.keep_until(known.place, now + hold.window + hold.window)
        return known.counter

    def still_counts(self, hold: Hold, counter: Counter, now: float) -> bool:
        """Whether the slot of ``counter`` has not been given to another one; a gauge, whose leases
        are not in the table alone, then gets another slot."""
        known = self._known.get(hold.key)
        if known is None or known.counter is not counter:
            return False
        if self._table.holds(known.place, known.digest, known.code):
            return True
        return isinstance(counter, SharedGauge) and self._find(hold, now).counter is counter

    def _find(self, hold: Hold, now: float) -> _Known:
        digest, code = digest_of(hold.key), _CODES[hold.strategy]
        place = self._table.find(digest, code)
        kind = WINDOWED.get(hold.strategy)
        counter: Counter
        if kind is None:
            counter = self._gauge(hold.key, now)
            counter.move(self._table.cells(place, 2 * self._rows))
        else:
            counter = kind(self._table.cells(place, kind.width), now)
        if len(self._known) >= self._forget_at:
            self._forget()
        found = self._known[hold.key] = _Known(counter, place, digest, code)
        return found

    def _gauge(self, key: str, now: float) -> SharedGauge:
        """The gauge of ``key`` with the leases that this process has of it."""
        known = self._known.get(key)
        if known is not None and isinstance(known.counter, SharedGauge):
            return known.counter
        return SharedGauge(now, self._table.generations(), self._row, self._reap)

    def _forget(self) -> None:
        """Lets go of all that can be found again: leases cannot."""
        self._known = {
            key: known
            for key, known in self._known.items()
            if isinstance(known.counter, SharedGauge) and known.counter.is_held
        }
        self._forget_at = max(MAX_KNOWN, 2 * len(self._known))

    def _reap(self) -> bool:
        """Makes void what ended processes hold; whether there was any."""
        now = self._monotonic()
        if now < self._reap_at:
            return False
        self._reap_at = now + REAP_SECONDS
        ended = [row for row in range(self._rows) if row != self._row and self._has_ended(row)]
        generations = self._table.generations()
        for row in ended:
            generations[row] += GENERATION
        return bool(ended)

    def _has_ended(self, row: int) -> bool:
        file = self._open_row(row)
        try:
            return _try_lock(file)
        finally:
            os.close(file)

    def _open_row(self, row: int) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(self._directory / f"worker-{row}", flags, 0o600)


def _try_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
