"""The health of host keys and the order in which a pool of them is tried."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from relay_gateway.catalog.snapshot import HostKey
from relay_gateway.pipeline.keyring import Cause, KeyState, ModelBench, Ring, Slot, ring_of
from relay_gateway.plugin.context import Clock

__all__ = ["Cause", "KeyPools", "KeyState"]

MIN_BENCH = 1.0
MAX_BENCH = 60.0
MAX_RETRY_AFTER = 600.0
TRIAL_SECONDS: Final = 30.0
"""How long others leave a key alone that one request tries again after it was refused."""
MAX_RINGS: Final = 4096
MAX_MODELS: Final = 256
"""For how many models a key can be left out at a time; one more, and it is the key itself."""


class KeyPools:
    """States of all host keys that were ever drawn, by id; every bench ends by itself."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._states: dict[str, KeyState] = {}
        self._rings: dict[tuple[int, str], tuple[Sequence[HostKey], Ring]] = {}
        self._epoch = 0
        self._doubted: set[str] = set()

    def state(self, key_id: str) -> KeyState:
        """The state of a key; a new one is healthy."""
        state = self._states.get(key_id)
        if state is None:
            state = self._states[key_id] = KeyState()
        return state

    def order(
        self, keys: Sequence[HostKey], strategy: str, model_id: str = ""
    ) -> Iterable[HostKey]:
        """The keys of a pool that may be drawn for a model, in the order in which they should be
        tried; the same ``keys`` must not be changed afterwards."""
        if len(keys) == 1:
            return keys if self.serves(keys[0].id, model_id) else ()
        now = self._clock.monotonic()
        ring = self._ring(keys, strategy, now)
        return self._picked(ring, now, model_id) if ring.slots else ()

    def equals(self, keys: Sequence[HostKey], strategy: str) -> Mapping[str, HostKey]:
        """Those of a pool that may be drawn and that the strategy prefers to all others, whatever
        their turn is, by id."""
        return self._ring(keys, strategy, self._clock.monotonic()).equals

    def bench(
        self, key_id: str, reason: str, seconds: float | None = None, cause: Cause | None = None
    ) -> None:
        """Leaves a key out for ``seconds``, or for 1 to 60 s that double with each strike.

        A bench is never shortened by a later, shorter one.
        """
        state = self.state(key_id)
        until = self._clock.monotonic() + _seconds(seconds, state.strikes)
        state.strikes += 1
        state.reason, state.cause = reason, cause
        state.benched_until = max(state.benched_until, until)
        state.trial_until = 0.0
        self._epoch += 1

    def bench_model(
        self, key_id: str, model_id: str, reason: str, seconds: float | None = None
    ) -> None:
        """Leaves a key out for one model, as :meth:`bench` does for all."""
        state, now = self.state(key_id), self._clock.monotonic()
        known = state.models.get(model_id)
        if known is None and len(state.models) >= MAX_MODELS:
            state.models = {one: bench for one, bench in state.models.items() if bench.until > now}
            if len(state.models) >= MAX_MODELS:
                self.bench(key_id, reason, seconds, Cause.THROTTLED)
                return
        strikes, until = (known.strikes, known.until) if known is not None else (0, 0.0)
        until = max(until, now + _seconds(seconds, strikes))
        state.models[model_id] = ModelBench(until, reason, strikes + 1)

    def draw(self, key_id: str, now: float) -> KeyState:
        """Counts a key as in use, until it is released."""
        state = self._states.get(key_id) or self.state(key_id)
        state.in_flight += 1
        state.last_used = now
        if state.cause is Cause.REFUSED:
            state.trial_until = self._clock.monotonic() + TRIAL_SECONDS
            self._epoch += 1
        return state

    def put_back(self, state: KeyState) -> None:
        """The key was drawn and is not used after all: neither is its trial."""
        state.release()
        if state.cause is Cause.REFUSED:
            state.trial_until = 0.0
            self._epoch += 1

    def recovered(self, state: KeyState, model_id: str) -> None:
        """The key has served a model: what was held against it for that is forgotten."""
        state.models.pop(model_id, None)
        if state.strikes:
            kept = dict(state.models)
            state.recover()
            state.models = kept
            self._epoch += 1

    def renew(self, key_id: str, value: bytes) -> None:
        """The credential of a key has this fingerprint now; another one than before starts with a
        clean slate, and so does one that could not be had."""
        state = self.state(key_id)
        if state.value != value or state.cause is Cause.UNRESOLVED:
            state.value = value
            state.recover()
            self._epoch += 1

    def doubt(self, key_id: str) -> None:
        """The key is only drawn when no other is left."""
        self._doubted.add(key_id)
        self._epoch += 1

    def trust(self, key_id: str) -> bool:
        """The key is drawn like any other again; whether it was not."""
        if key_id not in self._doubted:
            return False
        self._doubted.discard(key_id)
        self._epoch += 1
        return True

    def forget(self, key_id: str) -> None:
        """Lets go of what is known of a key: it is gone, or has another reference."""
        self.trust(key_id)
        state = self._states.get(key_id)
        if state is not None and state.in_flight:
            state.recover()  # those who have drawn it will give it back
        else:
            self._states.pop(key_id, None)
        self.renew_rings()

    def renew_rings(self) -> None:
        """Lets go of pools, which may be of keys that are gone."""
        self._rings.clear()
        for state in self._states.values():
            state.watchers = ()

    def reset(self, key_id: str) -> None:
        """Puts a key back into its pool as if it had never failed."""
        self.state(key_id).recover()
        self._epoch += 1

    def is_benched(self, key_id: str) -> bool:
        """Whether a key is left out right now."""
        state = self._states.get(key_id)
        return state is not None and state.benched_until > self._clock.monotonic()

    def shortest_wait(self, keys: Iterable[HostKey], model_id: str = "") -> float:
        """Seconds until the first of ``keys`` may be drawn for a model."""
        now = self._clock.monotonic()
        waits = (_ready_at(self.state(key.id), model_id) - now for key in keys)
        return max(1.0, min(waits, default=60.0))

    def describe(self, key_id: str) -> dict[str, object]:
        """The state of a key as the control plane shows it."""
        state, now = self._states.get(key_id) or KeyState(), self._clock.monotonic()
        left = state.ready_at - now
        benched = left > 0
        return {
            "state": "benched" if benched else "available",
            "reason": state.reason if benched else None,
            "secondsLeft": round(left, 1) if benched else None,
            "inFlight": state.in_flight,
            "models": [
                {"modelId": one, "reason": bench.reason, "secondsLeft": round(bench.until - now, 1)}
                for one, bench in state.models.items()
                if bench.until > now
            ],
        }

    def serves(self, key_id: str, model_id: str) -> bool:
        """Whether a key may be drawn for a model right now."""
        state = self._states.get(key_id) or self.state(key_id)
        if not (state.benched_until or state.trial_until or state.models):
            return True  # it never failed, or has recovered
        return _is_ready(state, self._clock.monotonic(), model_id)

    def _ring(self, keys: Sequence[HostKey], strategy: str, now: float) -> Ring:
        place = (id(keys), strategy)
        known = self._rings.get(place)
        if known is None:
            if len(self._rings) >= MAX_RINGS:
                self.renew_rings()
            slots = [(key, self.state(key.id)) for key in keys]
            # With the keys themselves, so that nothing else gets their identity.
            known = self._rings[place] = (keys, ring_of(slots, strategy))
        ring = known[1]
        if ring.epoch != self._epoch or ring.valid_until <= now:
            ring.refresh(now, self._epoch, self._doubted)
        return ring

    @staticmethod
    def _picked(ring: Ring, now: float, model_id: str) -> Iterator[HostKey]:
        for key, state in _all_of(ring):
            if not state.models or _ready_at(state, model_id) <= now:
                yield key


def _all_of(ring: Ring) -> Iterator[Slot]:
    last = ring.last
    yield from ring.picks()
    yield from last


def _is_ready(state: KeyState, now: float, model_id: str) -> bool:
    if state.benched_until > now or state.trial_until > now:
        return False
    return not state.models or _ready_at(state, model_id) <= now


def _ready_at(state: KeyState, model_id: str) -> float:
    bench = state.models.get(model_id)
    return state.ready_at if bench is None else max(state.ready_at, bench.until)


def _seconds(given: float | None, strikes: int) -> float:
    seconds = min(MAX_BENCH, MIN_BENCH * 2 ** min(strikes, 10)) if given is None else given
    return min(MAX_RETRY_AFTER, max(MIN_BENCH, seconds)) * random.uniform(1.0, 1.1)  # noqa: S311 - jitter
