"""A request whose body is still arriving, without a task: a callback carries it on."""

from __future__ import annotations

from typing import Protocol

from relay_gateway.pipeline.call import Call
from relay_gateway.pipeline.carrier import Interruptible
from relay_gateway.pipeline.ports import Caller


class Steps(Protocol):
    """What may come after the wait; each step sees the request to its end."""

    def arrived(self, call: Call, caller: Caller) -> None:
        """The body is here, or will not come: taking it says which."""

    def interrupted(self, call: Call, caller: Caller) -> None:
        """The gateway has no more time for the request."""


class Arriving:
    """In ``running`` until one of the ``steps`` is taken."""

    __slots__ = ("_call", "_caller", "_running", "_steps")

    def __init__(
        self, steps: Steps, running: set[Interruptible], call: Call, caller: Caller
    ) -> None:
        self._steps = steps
        self._running = running
        self._call = call
        self._caller = caller

    def begin(self, limit: int) -> None:
        """Waits for a body of at most ``limit`` bytes. Raises as :meth:`.Caller.when_body`."""
        self._running.add(self)
        try:
            self._caller.when_body(limit, self._settled)
        except BaseException:
            self._running.discard(self)
            raise

    def interrupt(self) -> None:
        """Ends the request, because the gateway has no more time for it."""
        self._running.discard(self)
        self._steps.interrupted(self._call, self._caller)

    def _settled(self) -> None:
        if self in self._running:
            self._running.discard(self)
            self._steps.arrived(self._call, self._caller)
