"""Whether a stream has really begun: its first event decides, not the status before it.

An upstream may answer 200 and then say in its first event that it cannot, or nothing at all. As
long as nothing has reached the caller, another host can still be asked.
"""

from __future__ import annotations

import logging
from typing import Final

from relay_gateway.errors import FAULTS, UpstreamClosedError, UpstreamProtocolError
from relay_gateway.http.sse import EventSplitter, parse_event
from relay_gateway.pipeline.call import Call
from relay_gateway.pipeline.ports import Exchange
from relay_gateway.pipeline.taps import EVENT_STREAM, readable_type
from relay_gateway.plugin.canonical import Failed
from relay_gateway.plugin.wire import FAILED, Problem, WireFormat

_LOOKED_AT: Final = 64 * 1024
_STATUS: Final = 502

_log = logging.getLogger(__name__)


def is_stream(exchange: Exchange) -> bool:
    """Whether the body is a stream of events that can be read here."""
    return readable_type(exchange).startswith(EVENT_STREAM)


def has_begun(exchange: Exchange, wire_format: WireFormat) -> bool | Problem:
    """True with the first event, what it says when that is an error, false while there is none.

    Raises :class:`UpstreamClosedError` for a stream that ended without an event.
    """
    seen = exchange.peek()
    splitter = EventSplitter()
    for event in splitter.feed(seen):
        name, data = parse_event(event)
        if not name and not data:
            continue  # a comment, to keep the connection busy
        return _failure(wire_format, name, data) if _fails(wire_format, name, data) else True
    if exchange.body_complete:
        if not any(parse_event(splitter.rest())):
            raise UpstreamClosedError("the upstream's stream ended before its first event")
        return True
    return len(seen) > _LOOKED_AT


async def first_event(exchange: Exchange, wire_format: WireFormat) -> Problem | None:
    """Waits for the first event: ``None``, or what it says when it is an error.

    Raises what ends the stream before it. The exchange is cancelled unless the stream has begun.
    """
    begun: bool | Problem = False
    try:
        while (begun := has_begun(exchange, wire_format)) is False:
            await exchange.more()
    finally:
        if begun is not True:
            exchange.cancel()
    return begun if isinstance(begun, Problem) else None


def _fails(wire_format: WireFormat, name: bytes, data: bytes) -> bool:
    try:
        return bool(wire_format.meter().event(name, data) & FAILED)
    except FAULTS:  # metering must never cost an answer
        _log.exception("a meter failed on the first event of a stream")
        return False


def _failure(wire_format: WireFormat, name: bytes, data: bytes) -> Problem:
    """What an event says that reports an error, with the status that it would have had as an
    answer."""
    codec = wire_format.codec()
    if codec is not None:
        try:
            for event in codec.stream_decoder().event(name, data):
                if isinstance(event, Failed):
                    return Problem(event.status, event.code, event.message)
        except UpstreamProtocolError:
            pass  # an error by its name only
    code, message = wire_format.dialect().read_error(data)
    return Problem(_STATUS, code or "upstream_error", message or "the upstream failed at once")


async def begun(call: Call, exchange: Exchange) -> Problem | None:
    """Waits for what shows that an answer with a good status is one; what it says if not."""
    translation, streams = call.translation, is_stream(exchange)
    # Some formats have other ways to ask for a stream than "stream".
    streams = streams and (call.streamed or translation is None)
    if translation is not None and not streams:
        if call.streamed:
            exchange.cancel()
            raise UpstreamProtocolError("the upstream did not answer with a stream of events")
        await translation.receive(exchange)
        call.dropped += translation.lost
        return None
    if not streams:
        return None
    return await first_event(exchange, call.upstream_format or call.wire_format)
