"""A request that waits for its upstream without a task: a callback carries it on."""

from __future__ import annotations

from typing import Protocol

from relay_gateway.errors import FAULTS
from relay_gateway.log import request_id
from relay_gateway.pipeline.call import Call
from relay_gateway.pipeline.carrier import Interruptible
from relay_gateway.pipeline.first_event import has_begun, is_stream
from relay_gateway.pipeline.opening import Opening
from relay_gateway.pipeline.ports import Caller
from relay_gateway.pipeline.route import Plan


class Steps(Protocol):
    """What may come after the wait; each step sees the request to its end."""

    def headed(self, waiting: Waiting) -> None:
        """Something has come: :meth:`Waiting.go_on` is due."""

    def answered(self, call: Call, caller: Caller, opening: Opening, now: float) -> None:
        """The upstream answered with success, at ``now``."""

    def go_on(self, call: Call, caller: Caller, plan: Plan, opening: Opening) -> None:
        """It did not: judge what came, and perhaps ask elsewhere."""

    def caller_gone(self, call: Call, caller: Caller) -> None:
        """Nobody waits for an answer any more."""

    def interrupted(self, call: Call, caller: Caller) -> None:
        """The gateway has no more time for the request."""


class Waiting:
    """A request whose first attempt has begun and has not been answered; in ``running`` until one
    of the ``steps`` is taken."""

    __slots__ = (
        "_call",
        "_caller",
        "_left",
        "_opening",
        "_plan",
        "_running",
        "_steps",
        "headed_at",
    )

    def __init__(
        self,
        steps: Steps,
        running: set[Interruptible],
        call: Call,
        caller: Caller,
        plan: Plan,
        opening: Opening,
    ) -> None:
        self._steps = steps
        self._running = running
        self._call = call
        self._caller = caller
        self._plan = plan
        self._opening = opening
        self._left = False
        self.headed_at = 0.0
        """When something came; the waiting of the answer from then on is the gateway's."""

    def begin(self) -> None:
        """Waits for the head of the answer."""
        exchange = self._opening.exchange
        if exchange.error is not None:
            self._steps.go_on(self._call, self._caller, self._plan, self._opening)
            return
        exchange.on_head = self._headed
        self._caller.on_disconnect = self._caller_gone
        self._running.add(self)

    def interrupt(self) -> None:
        """Ends the request, because the gateway has no more time for it."""
        self._leave()
        self._opening.exchange.cancel()
        self._steps.interrupted(self._call, self._caller)

    def _headed(self) -> None:
        self._steps.headed(self)

    def go_on(self) -> None:
        """Takes the next step with what has come, unless the request has ended meanwhile."""
        if self._left:
            return
        self._leave()
        call, opening = self._call, self._opening
        request_id.set(call.request_id)
        if self._has_begun():
            self._steps.answered(call, self._caller, opening, self.headed_at)
        else:
            self._steps.go_on(call, self._caller, self._plan, opening)

    def _has_begun(self) -> bool:
        exchange = self._opening.exchange
        if not 200 <= exchange.status < 300:
            return False
        if not is_stream(exchange):
            return True
        try:
            return has_begun(exchange, self._call.wire_format) is True
        except FAULTS:  # a format may be a plugin's; whoever goes on finds the same
            return False

    def _caller_gone(self) -> None:
        self._leave()
        self._opening.exchange.cancel()
        self._steps.caller_gone(self._call, self._caller)

    def _leave(self) -> None:
        self._left = True
        self._running.discard(self)
        self._caller.on_disconnect = None
