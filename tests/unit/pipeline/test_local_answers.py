"""Answers of providers inside the process, up to the first event that decides about a stream."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest

from relay_gateway.errors import UpstreamClosedError, UpstreamProtocolError
from relay_gateway.pipeline.first_event import first_event
from relay_gateway.pipeline.local import LocalExchange
from relay_gateway.plugin.providers import LocalAnswer
from relay_gateway.testing.catalog import PlainFormat
from relay_gateway.testing.exchanges import RecordingReceiver


def exchange(*chunks: bytes, error: Exception | None = None) -> LocalExchange:
    async def told() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk
        if error is not None:
            raise error

    headers: Sequence[tuple[bytes, bytes]] = [(b"content-type", b"text/event-stream")]
    return LocalExchange(LocalAnswer(200, headers, told()))


async def test_what_was_read_for_the_first_event_is_delivered_before_the_rest() -> None:
    local = exchange(b": busy\n\n", b"data: on", b"e\n\n", b"data: end\n\n")
    assert await first_event(local, PlainFormat()) is None
    receiver = RecordingReceiver()
    local.receive(receiver)
    await receiver.ended.wait()
    assert receiver.body == b": busy\n\ndata: one\n\ndata: end\n\n"


@pytest.mark.parametrize("error", [ValueError("a defect"), UpstreamProtocolError("its own")])
async def test_a_provider_that_fails_before_its_first_event_is_an_upstream_that_failed(
    error: Exception,
) -> None:
    kind = (
        UpstreamProtocolError if isinstance(error, UpstreamProtocolError) else UpstreamClosedError
    )
    with pytest.raises(kind):
        await first_event(exchange(b": busy\n\n", error=error), PlainFormat())


async def test_a_provider_that_says_nothing_is_an_upstream_that_closed() -> None:
    with pytest.raises(UpstreamClosedError, match="before its first event"):
        await first_event(exchange(b": busy\n\n"), PlainFormat())
