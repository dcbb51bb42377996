"""The lines of one kind of sink: switched while records flow, none lost and none doubled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from relay_gateway.delivery.journal import Journal
from relay_gateway.delivery.line import Line
from relay_gateway.delivery.stream import Stream
from relay_gateway.delivery.taking import Taker
from relay_gateway.errors import PluginUnavailableError

T = TypeVar("T")
TakerOf = Callable[[str], Taker[T]]
LineOf = Callable[[str, Taker[T], Journal[T]], Line[T]]
_log = logging.getLogger(__name__)


class Lines(Generic[T]):
    """The lines from one journal. ``taker_of`` finds a sink by its name, and raises
    :class:`PluginUnavailableError`."""

    def __init__(self, journal: Journal[T], taker_of: TakerOf[T], line_of: LineOf[T]) -> None:
        self._journal = journal
        self._taker_of = taker_of
        self._line_of = line_of
        self._lines: dict[str, Line[T]] = {}
        self._active: tuple[Line[T], ...] = ()
        self.missing: dict[str, str] = {}
        """Sinks that records should go to and that cannot be had, and why."""
        self.held: dict[str, str] = {}
        """The same of sinks that an earlier process has left records for."""
        self._held: dict[str, list[Stream[T]]] = {}
        """What it has left for them."""
        self._wanted: tuple[str, ...] = ()

    @property
    def all(self) -> Sequence[Line[T]]:
        """Every line, also those that only finish."""
        return tuple(self._lines.values())

    def put(self, number: int, record: T) -> None:
        """Hands a record that was written to the lines that are to get it."""
        for line in self._active:
            line.put(number, record)

    def switch(self, names: Sequence[str]) -> None:
        """Has the records from now on go to ``names``; those before still go where they were to
        go. A name that is not to be had stays out, as long as it is so, and is in ``missing``."""
        self._wanted = wanted = tuple(dict.fromkeys(names))
        self.missing = {}
        found = {
            name: taker for name in wanted if (taker := self._find(name, self.missing)) is not None
        }
        if tuple(found) == self._journal.sinks:
            return
        self._journal.route(tuple(found))
        number = self._journal.number
        for name, taker in found.items():
            line = self._lines.get(name)
            if line is None or line.done:
                self._journal.acknowledge(name, number)
                line = self._start(name, taker)
            line.until = None
        for name, line in self._lines.items():
            if line.until is None and name not in found and line.routed:
                line.until = number
                line.wake()
        self._active = tuple(line for line in self._lines.values() if line.until is None)

    def renew(self) -> None:
        """Has those sinks get records that could not be had before, and can be now."""
        if self.missing:
            self.switch(self._wanted)
        for name in tuple(self._held):
            taker = self._find(name, self.held)
            if taker is not None:
                del self.held[name]
                for stream in self._held.pop(name):
                    self._line_for(name, taker).take_over(stream)

    def follow(self, name: str, taker: Taker[T]) -> None:
        """Adds one that gets every record from now on, wherever records are routed."""
        self._start(name, taker)
        self._active = tuple(line for line in self._lines.values() if line.until is None)

    def take_over(self, stream: Stream[T], names: Sequence[str]) -> None:
        """Delivers what an earlier process has left for ``names``."""
        for name in names:
            # Held until the sink is to be had again.
            stream.readers.add(name)
            taker = self._find(name, self.held)
            if taker is None:
                self._held.setdefault(name, []).append(stream)
            else:
                self._line_for(name, taker).take_over(stream)
        for line in self._lines.values():
            if not line.routed:
                line.take_over(stream)

    def clear(self) -> list[str]:
        """Forgets lines that have finished; their names."""
        finished = [name for name, line in self._lines.items() if line.done]
        for name in finished:
            self._journal.leave(name)
            del self._lines[name]
        return finished

    async def aclose(self, deadline: float) -> int:
        """Hands over what is left, for at most ``deadline`` seconds; how many records stay."""
        await asyncio.gather(*(line.aclose(deadline) for line in self._lines.values()))
        return sum(line.depth for line in self._lines.values())

    def _line_for(self, name: str, taker: Taker[T]) -> Line[T]:
        line = self._lines.get(name)
        if line is None or line.done:
            number = self._journal.number
            self._journal.acknowledge(name, number)
            line = self._start(name, taker)
            line.until = number
        return line

    def _start(self, name: str, taker: Taker[T]) -> Line[T]:
        line = self._lines[name] = self._line_of(name, taker, self._journal)
        line.start()
        return line

    def _find(self, name: str, missing: dict[str, str]) -> Taker[T] | None:
        try:
            return self._taker_of(name)
        except PluginUnavailableError as error:
            if name not in missing:
                _log.error("records cannot go to the sink %s: %s", name, error)
            missing[name] = str(error)
            return None
