"""The states of hosts and host keys in every process that asks hosts, put together in the one that
is asked for them.

Which keys are benched, which hosts are left alone, and which credentials are known, is a matter of
each process.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from relay_gateway.server.gathering import ALONE, worker_name
from relay_gateway.server.letterbox import Letterbox
from relay_gateway.server.questions import (
    Asked,
    Question,
    ResetHost,
    ResetHostKey,
    State,
    TellHostKeys,
    TellHosts,
    encoded,
)

ANSWER_SECONDS: Final = 1.0
SILENCE_SECONDS: Final = 5.0
"""How long a worker that did not answer is not asked again."""
UNKNOWN: Final = "unknown"

_log = logging.getLogger(__name__)


class ProcessStates:
    """Asks ``workers`` where there are any, and else this process, which asks hosts itself."""

    def __init__(self, own: Asked, workers: Sequence[Letterbox] = ()) -> None:
        self._own = own
        self._workers = [_Worker(worker_name(n), box) for n, box in enumerate(workers, start=1)]

    async def host_keys(self, ids: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
        """By id what may be shown of each host key: one summary, and each process by itself."""
        states = await self._states(ids, TellHostKeys(tuple(ids)), self._own.host_key_state)
        return {one: key_summary(processes) for one, processes in states.items()}

    async def hosts(self, ids: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
        """By id what may be shown of each host, in the same form."""
        states = await self._states(ids, TellHosts(tuple(ids)), self._own.host_state)
        return {one: host_summary(processes) for one, processes in states.items()}

    async def reset_host_key(self, key_id: str) -> None:
        """Puts a host key, and its host, back to use everywhere."""
        self._own.reset_host_key(key_id)
        await self._tell(ResetHostKey(key_id))

    async def reset_host(self, host_id: str) -> None:
        """Has a host asked again everywhere, as if it had never failed."""
        self._own.reset_host(host_id)
        await self._tell(ResetHost(host_id))

    async def _tell(self, order: Question) -> None:
        await asyncio.gather(*(worker.ask(order) for worker in self._workers))

    async def _states(
        self, ids: Sequence[str], question: Question, own: Callable[[str], State]
    ) -> Mapping[str, list[State]]:
        if not self._workers:
            return {one: [{"process": ALONE, **own(one)}] for one in ids}
        unknown: list[State] = [{"state": UNKNOWN} for _ in ids]
        answers = await asyncio.gather(*(worker.states(question) for worker in self._workers))
        return {
            one: [
                {"process": worker.name, **(unknown if states is None else states)[at]}
                for worker, states in zip(self._workers, answers, strict=True)
            ]
            for at, one in enumerate(ids)
        }


class _Worker:
    def __init__(self, name: str, box: Letterbox) -> None:
        self.name = name
        self._box = box
        self._quiet_until = 0.0

    async def states(self, question: Question) -> list[State] | None:
        """Its states, in the order they are asked for; ``None`` where it does not answer."""
        if time.monotonic() >= self._quiet_until:
            answer = await self.ask(question)
            if answer is not None:
                return msgspec.msgpack.decode(answer, type=list[State])
            self._quiet_until = time.monotonic() + SILENCE_SECONDS
        return None

    async def ask(self, question: Question) -> bytes | None:
        """Its answer, or ``None``."""
        try:
            return await self._box.ask(ANSWER_SECONDS, encoded(question))
        except (OSError, TimeoutError) as error:
            _log.warning("%s did not answer: %s", self.name, type(error).__name__)
            return None


def key_summary(processes: Sequence[State]) -> State:
    """One state for all: ``available`` or ``benched`` where all say so, else ``partly-benched``.

    Of errors and reasons the first is given, of times the longest.
    """
    known = _known(processes)
    return {
        "state": _agreed(known, "partly-benched"),
        "reason": _first(known, "reason"),
        "secondsLeft": _longest(known, "secondsLeft"),
        "inFlight": sum(state["inFlight"] for state in known),
        "resolved": any(state["resolved"] for state in known),
        "backend": _first(known, "backend"),
        "version": _first(known, "version"),
        "ageSeconds": _longest(known, "ageSeconds"),
        "stale": any(state["stale"] for state in known),
        "refreshSeconds": _longest(known, "refreshSeconds"),
        "lastError": _first(known, "lastError"),
        "models": [bench for state in known for bench in state["models"]],
        "host": _worst([state["host"] for state in known]),
        "processes": list(processes),
    }


def host_summary(processes: Sequence[State]) -> State:
    """One state for all: ``available``, ``ejected`` or ``half-open`` where all say so, else
    ``partly-ejected``. Of reasons the first is given, of times the longest."""
    known = _known(processes)
    return {
        "state": _agreed(known, "partly-ejected"),
        "reason": _first(known, "reason"),
        "secondsLeft": _longest(known, "secondsLeft"),
        "ejections": max((state["ejections"] for state in known), default=0),
        "processes": list(processes),
    }


def _known(processes: Sequence[State]) -> Sequence[State]:
    return [state for state in processes if state["state"] != UNKNOWN]


def _worst(hosts: Sequence[State]) -> State | None:
    """What the process says of the host that leaves it alone for longest."""
    return max(hosts, key=lambda host: (host["state"] != "available", host["secondsLeft"] or 0.0),
               default=None)  # fmt: skip


def _agreed(known: Sequence[State], otherwise: str) -> str:
    if not known:
        return UNKNOWN
    first: str = known[0]["state"]
    return first if all(state["state"] == first for state in known) else otherwise


def _first(states: Sequence[State], name: str) -> Any:
    return next((state[name] for state in states if state[name] is not None), None)


def _longest(states: Sequence[State], name: str) -> float | None:
    return max((state[name] for state in states if state[name] is not None), default=None)
