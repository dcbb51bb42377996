"""What all connections of one server share: its handler, its limits, its words for refusals."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

from relay_gateway.errors import RequestRefusedError
from relay_gateway.http.body_room import BodyRoom
from relay_gateway.http.deadlines import DeadlineSweep
from relay_gateway.http.door import Door
from relay_gateway.http.exchange import ServerExchange
from relay_gateway.http.limits import ServerLimits
from relay_gateway.http.request_body import CallerGoneError
from relay_gateway.http.response_head import CLOSE, DateLine, status_line

Handler = Callable[[ServerExchange], Coroutine[Any, Any, None] | None]
"""Begins to handle one request. What it returns is run in a task; where it returns nothing it has
answered, or callbacks of its own will."""

Refuse = Callable[[int, str, str], tuple[bytes, bytes]]
"""Words a refusal where no handler can: status, code and message to header block and body."""

_log = logging.getLogger(__name__)

# RFC 9110 demands these fields with these statuses.
_REQUIRED: Final = {
    405: b"Allow: DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT\r\n",
    426: b"Upgrade: HTTP/1.1\r\n",
}


class ServerState(Protocol):
    """What the server that accepts connections keeps about them (uvicorn's ``ServerState``)."""

    total_requests: int
    connections: set[Any]
    tasks: set[asyncio.Task[None]]


class Plane:
    """The shared part of the server, made once."""

    __slots__ = ("_handler", "_refuse", "date", "door", "limits", "room", "sweep")

    def __init__(self, handler: Handler, refuse: Refuse, limits: ServerLimits) -> None:
        self._handler = handler
        self._refuse = refuse
        self.limits = limits
        self.room = BodyRoom(limits.body_memory_bytes)
        self.door = Door(limits, self.refusal)
        self.sweep = DeadlineSweep(limits.sweep_seconds)
        self.date = DateLine()

    def refusal(self, refusal: RequestRefusedError) -> bytes:
        """The whole answer to what never became an exchange; the connection closes after it."""
        headers, body = self._refuse(refusal.status, refusal.code, refusal.message)
        framing = b"Content-Length: %d\r\n\r\n" % len(body)
        required = _REQUIRED.get(refusal.status, b"")
        if refusal.retry_after is not None:
            required += b"Retry-After: %d\r\n" % math.ceil(refusal.retry_after)
        head = (status_line(refusal.status), self.date(), CLOSE, required, headers, framing)
        return b"".join((*head, body))

    def begin(self, exchange: ServerExchange) -> Coroutine[Any, Any, None] | None:
        """Calls the handler; the coroutine, if there is one, is to be run in a task."""
        try:
            work = self._handler(exchange)
        except Exception as error:  # noqa: BLE001 - one request fails, not the process
            self._fail_for(exchange, error)
            return None
        return None if work is None else self.guard(exchange, work)

    async def guard(self, exchange: ServerExchange, work: Coroutine[Any, Any, None]) -> None:
        """Runs what handles a request to its end, and answers for it where it has not begun to.

        It may leave an answer that has begun to callbacks of its own, which finish or abort it.
        """
        try:
            await work
            if not exchange.started and not exchange.disconnected:
                raise RuntimeError("the handler returned before its answer was started")
        except asyncio.CancelledError:
            self._fail(exchange, 503, "shutting_down", "The gateway is shutting down; try again.")
            raise
        except CallerGoneError:
            exchange.abort()
        except Exception as error:  # noqa: BLE001 - one request fails, not the process
            self._fail_for(exchange, error)

    def _fail_for(self, exchange: ServerExchange, error: Exception) -> None:
        if isinstance(error, RequestRefusedError):
            self._fail(exchange, error.status, error.code, error.message)
            return
        _log.error("the handler of %s %s failed", exchange.method, exchange.path, exc_info=error)
        self._fail(exchange, 500, "internal_error", "The gateway failed to handle the request.")

    def _fail(self, exchange: ServerExchange, status: int, code: str, message: str) -> None:
        if exchange.started or exchange.disconnected:
            exchange.abort()
        else:
            exchange.respond(status, *self._refuse(status, code, message))
