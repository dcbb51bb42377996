"""One pool of host keys in the order of its strategy, kept from request to request.

What is benched is not in it, so that a pick looks at one key or a few, however many there are. It
is put together anew when the health of any key has changed, not with each request.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum, auto
from heapq import heapify, heappush, heapreplace
from itertools import accumulate
from typing import Final

import msgspec

from relay_gateway.catalog.snapshot import HostKey

MAX_ENTRIES: Final = 4
"""How many entries for each key a heap may have before it is put together anew."""


class Cause(Enum):
    """Why a key was benched."""

    UNRESOLVED = auto()
    """Its credential cannot be had."""
    REFUSED = auto()
    """An upstream refuses its credential."""
    THROTTLED = auto()
    """An upstream has no room for it."""


class ModelBench(msgspec.Struct):
    """A key is left out for one model only."""

    until: float
    reason: str
    strikes: int


class KeyState:
    """What this process knows of one host key. Times are of the monotonic clock."""

    __slots__ = (
        "benched_until",
        "cause",
        "in_flight",
        "last_used",
        "models",
        "reason",
        "strikes",
        "trial_until",
        "value",
        "watchers",
    )

    def __init__(self) -> None:
        self.benched_until = 0.0
        self.reason: str | None = None
        self.cause: Cause | None = None
        self.strikes = 0
        self.in_flight = 0
        self.last_used = 0.0
        self.trial_until = 0.0
        """While a key that was refused is tried by one request, others leave it alone until
        then."""
        self.models: dict[str, ModelBench] = {}
        """For which models, by id, it is left out."""
        self.value: bytes | None = None
        """The fingerprint of the credential that all this is about."""
        self.watchers: tuple[Callable[[KeyState], None], ...] = ()
        """Who has to know when ``in_flight`` falls."""

    @property
    def ready_at(self) -> float:
        """From when on the key may be drawn."""
        return max(self.benched_until, self.trial_until)

    def recover(self) -> None:
        """Forgets every failure."""
        self.benched_until, self.reason, self.cause, self.strikes = 0.0, None, None, 0
        self.trial_until = 0.0
        self.models.clear()

    def release(self) -> None:
        """One request less uses the key."""
        self.in_flight -= 1
        for watcher in self.watchers:
            watcher(self)


Slot = tuple[HostKey, KeyState]


class Ring:
    """The keys of a pool that may be drawn. ``epoch`` and ``valid_until`` say for how long."""

    def __init__(self, slots: Sequence[Slot]) -> None:
        self._all = slots
        self.slots: Sequence[Slot] = ()
        self.last: Sequence[Slot] = ()
        """Those that are only tried when all others were."""
        self._equals: Mapping[str, HostKey] | None = None
        self.epoch = -1
        self.valid_until = 0.0

    def refresh(self, now: float, epoch: int, doubted: set[str]) -> None:
        """Leaves out what is benched, and puts those ``doubted`` last."""
        waiting = [state.ready_at for _, state in self._all if state.ready_at > now]
        ready = [slot for slot in self._all if slot[1].ready_at <= now]
        sure = [slot for slot in ready if slot[0].id not in doubted] if doubted else ready
        self.slots = sure or ready
        self.last = [slot for slot in ready if slot[0].id in doubted] if sure and doubted else ()
        self.epoch = epoch
        self.valid_until = min(waiting, default=float("inf"))
        self._equals = None
        self._arrange()

    def picks(self) -> Iterator[Slot]:
        """The keys in the order in which this request should try them."""
        yield from self.slots

    @property
    def equals(self) -> Mapping[str, HostKey]:
        """The keys that the strategy prefers to all others, whatever their turn is, by id."""
        if self._equals is None:
            self._equals = {key.id: key for key, _ in self._preferred()}
        return self._equals

    def _preferred(self) -> Sequence[Slot]:
        return self.slots

    def _arrange(self) -> None:
        """Takes up what is in ``slots`` now."""


class Prioritized(Ring):
    """The lowest number first."""

    def __init__(self, slots: Sequence[Slot]) -> None:
        super().__init__(sorted(slots, key=lambda slot: slot[0].priority))

    def _preferred(self) -> Sequence[Slot]:
        lowest = self.slots[0][0].priority if self.slots else 0
        return [slot for slot in self.slots if slot[0].priority == lowest]


class RoundRobin(Ring):
    """Each in turn."""

    _turn = -1

    def picks(self) -> Iterator[Slot]:
        slots, count = self.slots, len(self.slots)
        self._turn = turn = (self._turn + 1) % count
        for step in range(count):
            yield slots[(turn + step) % count]


class Weighted(Ring):
    """By chance, in proportion to weights; weight 0 comes last."""

    _sums: Sequence[int] = ()

    def picks(self) -> Iterator[Slot]:
        slots, sums = self.slots, self._sums
        if not sums[-1]:
            yield from slots
            return
        first = slots[bisect_right(sums, random.random() * sums[-1])]  # noqa: S311 - chance
        yield first
        yield from _drawn([slot for slot in slots if slot is not first])

    def _preferred(self) -> Sequence[Slot]:
        return [slot for slot in self.slots if slot[0].weight] or self.slots

    def _arrange(self) -> None:
        self._sums = list(accumulate(key.weight for key, _ in self.slots))


class Least(Ring):
    """The least of a measure first: a heap whose entries may say too little, never too much.

    Whatever raises the measure leaves an entry behind that is found to be too low when it comes to
    the top. Whatever lowers it must say so (``in_flight`` does; ``last_used`` never falls).
    """

    def __init__(
        self, slots: Sequence[Slot], measure: Callable[[KeyState], float], *, falls: bool
    ) -> None:
        super().__init__(slots)
        self._measure = measure
        self._heap: list[tuple[float, int]] = []
        self._places = {id(state): place for place, (_, state) in enumerate(slots)}
        self._in: set[int] = set()
        if falls:
            for _, state in slots:
                state.watchers = (*state.watchers, self._fell)

    def picks(self) -> Iterator[Slot]:
        first = self._top()
        yield first
        rest = [slot for slot in self.slots if slot is not first]
        yield from sorted(rest, key=lambda slot: self._measure(slot[1]))

    def _top(self) -> Slot:
        heap, measure = self._heap, self._measure
        while True:
            noted, place = heap[0]
            slot = self._all[place]
            actual = measure(slot[1])
            if actual == noted:
                return slot
            heapreplace(heap, (actual, place))

    def _fell(self, state: KeyState) -> None:
        place = self._places[id(state)]
        if place not in self._in:
            return
        if len(self._heap) >= MAX_ENTRIES * len(self.slots):
            self._arrange()
        else:
            heappush(self._heap, (self._measure(state), place))

    def _arrange(self) -> None:
        self._in = {self._places[id(state)] for _, state in self.slots}
        self._heap = [(self._measure(self._all[place][1]), place) for place in self._in]
        heapify(self._heap)


def ring_of(slots: Sequence[Slot], strategy: str) -> Ring:
    """The pool of these keys under a strategy."""
    if strategy == "least-recently-used":
        return Least(slots, lambda state: state.last_used, falls=False)
    if strategy == "least-in-flight":
        return Least(slots, lambda state: state.in_flight, falls=True)
    return _RINGS[strategy](slots)


_RINGS: dict[str, type[Ring]] = {
    "prioritized": Prioritized,
    "round-robin": RoundRobin,
    "weighted": Weighted,
}


def _drawn(slots: Sequence[Slot]) -> list[Slot]:
    # Efraimidis and Spirakis: the largest u^(1/w) first is a draw by weight without replacement.
    keyed = [
        (random.random() ** (1 / key.weight) if key.weight else -1.0)  # noqa: S311 - chance
        for key, _ in slots
    ]
    order = sorted(range(len(slots)), key=keyed.__getitem__, reverse=True)
    return [slots[place] for place in order]
