"""The way in for a body that is not held: from the caller to the upstream, each at its own pace."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from relay_gateway.errors import RelayError, RequestRefusedError, UpstreamClosedError
from relay_gateway.http.answer import Exchange
from relay_gateway.http.request_body import CallerGoneError
from relay_gateway.http.upload import BodyWriter
from relay_gateway.pipeline.call import Call
from relay_gateway.pipeline.inspection import Inspection
from relay_gateway.pipeline.ports import Caller

Judge = Callable[[str], None]
"""Raises :class:`RequestRefusedError` for a model that the request may not name."""


class Upload:
    """Hands over the pieces of one body, each after the ``inspection`` has seen it: of a request
    that is refused while it comes the upstream never has the whole.

    ``seen`` bytes at the beginning have been looked at before.
    """

    __slots__ = (
        "_call",
        "_caller",
        "_exchange",
        "_headed",
        "_inspection",
        "_judge",
        "_refusal",
        "_unseen_after",
        "_writer",
    )

    def __init__(
        self, call: Call, caller: Caller, inspection: Inspection, judge: Judge, seen: int
    ) -> None:
        self._call = call
        self._caller = caller
        self._inspection = inspection
        self._judge = judge
        self._unseen_after = seen
        self._refusal: RelayError | None = None
        self._headed = asyncio.get_running_loop().create_future()
        self._exchange: Exchange
        self._writer: BodyWriter

    async def run(self, exchange: Exchange, writer: BodyWriter) -> None:
        """Begins to hand over, and returns with the head of the answer; what is still to be sent
        then goes on by itself.

        Raises what ended the body before its end, and :class:`UpstreamError`.
        """
        self._exchange, self._writer = exchange, writer
        exchange.on_head = self._answered
        writer.on_flow = self._flow
        if exchange.error is None:
            self._caller.stream_body(self)
            try:
                await self._headed
            except asyncio.CancelledError:
                self._caller.drop_body()
                exchange.cancel()
                raise
        if self._refusal is not None:
            raise self._refusal
        if exchange.error is not None and not exchange.status:
            self._caller.drop_body()
            raise exchange.error

    # The caller's side.

    def piece(self, data: bytes) -> None:
        """Some of the body."""
        self._call.bytes_in += len(data)
        unseen, self._unseen_after = data[self._unseen_after :], self._unseen_after - len(data)
        self._unseen_after = max(0, self._unseen_after)
        if self._look(lambda: self._inspection.feed(unseen)):
            self._writer.write(data)

    def complete(self) -> None:
        """The whole body has come."""
        if self._look(self._inspection.finish):
            self._writer.finish()

    def failed(self, error: RelayError) -> None:
        """The rest of the body will not come."""
        if not isinstance(error, CallerGoneError):  # whoever waits for the answer is told of that
            self._break_off(error)

    def _look(self, look: Callable[[], None]) -> bool:
        """Whether the request may go on after a ``look`` at it."""
        known = self._inspection.model
        try:
            look()
            if self._inspection.model is not None and self._inspection.model != known:
                self._judge(self._inspection.model)
        except RequestRefusedError as refusal:
            self._caller.drop_body()
            self._break_off(refusal)
            return False
        return True

    def _break_off(self, error: RelayError) -> None:
        self._refusal = error
        self._writer.break_off(UpstreamClosedError("the request broke off before its end"))

    # The upstream's side.

    def _answered(self) -> None:
        if not self._headed.done():
            self._headed.set_result(None)
        if self._exchange.status >= 300 or self._exchange.error is not None:
            self._caller.drop_body()  # it is decided, and the rest would only be thrown away

    def _flow(self, writable: bool) -> None:  # noqa: FBT001 - the signature of the writer
        if writable:
            self._caller.resume_body()
        else:
            self._caller.pause_body()
