"""What every answer has in common that is on its way back without a task: how it begins, what stops
it, and that it is accounted for before its caller has the end of it."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Protocol

from relay_gateway.errors import UpstreamError, UpstreamTimeoutError
from relay_gateway.pipeline.call import Call
from relay_gateway.pipeline.ports import Caller, Exchange
from relay_gateway.pipeline.taps import Tap

INTERRUPTED = "interrupted"
TRUNCATED = "stream_truncated"


class Interruptible(Protocol):
    """An answer that is under way without a task of its own."""

    def interrupt(self) -> None:
        """Ends it now, because the gateway has no more time for it."""


class Accounts(Protocol):
    """Who closes requests."""

    def account(self, call: Call, caller: Caller, unsent: int) -> None:
        """Writes down what a request was, once, before the last ``unsent`` bytes go out."""

    def settle(self, call: Call, caller: Caller) -> None:
        """The answer has ended; accounts for it where that is not done yet."""


class Carrier(ABC):
    """Carries the body of one answer. It ends in exactly one of four ways — the upstream ended,
    the upstream failed, the caller left, the gateway stops — and then settles once. Until then it
    is in ``running``."""

    __slots__ = (
        "_accounts",
        "_call",
        "_caller",
        "_exchange",
        "_last",
        "_running",
        "_tap",
        "_timer",
    )

    def __init__(
        self,
        call: Call,
        caller: Caller,
        exchange: Exchange,
        accounts: Accounts,
        running: set[Interruptible],
        tap: Tap,
    ) -> None:
        self._call = call
        self._caller = caller
        self._exchange = exchange
        self._accounts = accounts
        self._running = running
        self._tap = tap
        self._last = b""
        """The last piece, which waits until it is accounted for."""
        self._timer: asyncio.TimerHandle | None = None

    @abstractmethod
    def data(self, chunk: bytes) -> None:
        """A piece of the answer."""

    @abstractmethod
    def end(self) -> None:
        """The body is complete."""

    @abstractmethod
    def failed(self, error: UpstreamError) -> None:
        """The answer broke off: the caller never sees a clean end."""

    @abstractmethod
    def interrupt(self) -> None:
        """Ends the answer now, because the gateway has no more time for it."""

    def _watch(self) -> None:
        """From now on the caller may leave or be slow, and time may run out."""
        self._running.add(self)
        self._caller.on_disconnect = self._caller_gone
        self._caller.on_flow = self._flow
        if self._call.deadline is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(self._call.deadline, self._out_of_time)

    def _finish(self, last: bytes) -> None:
        """A clean end with these bytes."""
        self._leave(len(last))
        if last:
            self._caller.write(last)
        self._caller.finish()
        self._accounts.settle(self._call, self._caller)

    def _abort(self, last: bytes = b"") -> None:
        """Ends the answer in a way that nobody takes for its end."""
        self._leave(len(last))
        if last:
            self._caller.write(last)
        self._caller.abort()
        self._accounts.settle(self._call, self._caller)

    def _caller_gone(self) -> None:
        self._exchange.cancel()
        if not self._tap.terminal:
            self._call.fail("cancelled", "client_closed")
        self._leave(0)
        self._accounts.settle(self._call, self._caller)

    def _out_of_time(self) -> None:
        self._exchange.cancel()
        self.failed(UpstreamTimeoutError("the caller's deadline has passed", phase="total"))

    def _flow(self, writable: bool) -> None:  # noqa: FBT001 - the signature of the port
        if writable:
            self._exchange.resume()
        else:
            self._exchange.pause()

    def _leave(self, unsent: int) -> None:
        """Nothing more is waited for: accounts for the answer, of which ``unsent`` bytes are still
        to be sent."""
        if self._timer is not None:
            self._timer.cancel()
        self._caller.on_disconnect = self._caller.on_flow = None
        self._running.discard(self)
        self._accounts.account(self._call, self._caller, unsent)
