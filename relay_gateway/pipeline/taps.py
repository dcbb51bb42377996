"""What sees an answer on its way back: to meter it, to withhold parts of it, to translate it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from relay_gateway.errors import FAULTS
from relay_gateway.http.sse import EventSplitter, parse_event
from relay_gateway.pipeline.call import Call
from relay_gateway.pipeline.ports import Exchange
from relay_gateway.pipeline.translate import Translation
from relay_gateway.plugin.canonical import Failed, Finished, StreamEvent
from relay_gateway.plugin.wire import (
    CONTENT,
    FAILED,
    LAST,
    TERMINAL,
    USAGE_ONLY,
    UsageMeter,
    WireFormat,
)

MAX_METERED_BODY: Final = 16 * 1024 * 1024
EVENT_STREAM: Final = b"text/event-stream"
JSON: Final = b"application/json"
STREAM_ERROR: Final = "upstream_stream_error"
"""The upstream said in the midst of a stream that it failed."""

_log = logging.getLogger(__name__)


class Tap:
    """What sees a copy of the answer. This one looks at nothing: for bodies that cannot be
    metered."""

    edits = False
    is_stream = False
    terminal = False
    last = False
    """Whether what was seen has the last event of a stream."""
    broken = False
    """Whether the answer turned out to be incomplete although its body ended regularly."""

    def feed(self, chunk: bytes) -> None:
        """A chunk that has gone to the caller."""

    def edit(self, chunk: bytes) -> bytes:
        """What is to go to the caller instead of ``chunk``; only called where ``edits`` is true."""
        return chunk

    def complete(self) -> None:
        """The answer has come to its end."""

    def held(self) -> bytes:
        """What was held back and still has to go out, now that nothing more comes."""
        return b""


class BodyTap(Tap):
    """Keeps references to the chunks of an answer that is not a stream, and meters it when it is
    whole."""

    def __init__(self, call: Call, meter: UsageMeter) -> None:
        self._meter = meter
        self._chunks: list[bytes] = []
        self._size = 0
        call.reading = meter.reading

    def feed(self, chunk: bytes) -> None:
        self._size += len(chunk)
        if self._size <= MAX_METERED_BODY:
            self._chunks.append(chunk)
        else:
            self._chunks.clear()

    def complete(self) -> None:
        if self._chunks:
            meter_body(self._meter, b"".join(self._chunks))
            self._chunks.clear()


class StreamTap(Tap):
    """Splits a stream into events and shows each to the meter."""

    is_stream = True
    broken = False

    def __init__(self, call: Call, meter: UsageMeter) -> None:
        self._call = call
        self._meter = meter
        self._splitter = EventSplitter()
        self._metering = True
        self._flags = 0
        call.streamed = True  # some formats have other ways to ask for a stream than "stream"
        call.reading = meter.reading

    def feed(self, chunk: bytes) -> None:
        if not self._metering:
            return
        only = self._splitter.only(chunk)
        if only is not None:
            self._show(*only)
            return
        for event in self._splitter.feed(chunk):
            self._show(*parse_event(event))

    def complete(self) -> None:
        ends_visibly = self._call.wire_format.stream_ends_with_terminal and self._recognised()
        self.broken = ends_visibly and self._metering and not self.terminal

    def _recognised(self) -> bool:
        """Whether the meter knew any of it; nobody can say how a stream of something else ends."""
        reading = self._meter.reading
        return bool(
            self._flags or reading.tokens or reading.upstream_model or reading.finish_reason
        )

    def _show(self, name: bytes, data: bytes) -> int:
        """The meter's flags for an event; an exception ends metering, not the answer."""
        if not self._metering:
            return 0
        try:
            flags = self._meter.event(name, data)
        except FAULTS:  # metering must never cost an answer
            _log.exception("a meter failed; this stream is not metered any further")
            self._metering = False
            return 0
        if flags & (TERMINAL | ~self._flags):  # what it has not said before
            self._note(flags)
        return flags

    def _note(self, flags: int) -> None:
        call = self._call
        self._flags |= flags
        if flags & CONTENT and call.first_token_at is None:
            call.first_token_at = call.last_byte_at
        if flags & TERMINAL:
            self.terminal = True
            self.last = self.last or flags & LAST != 0
        if flags & FAILED:
            call.broke_off = STREAM_ERROR
            call.fail("upstream_error", STREAM_ERROR)
            self.terminal = True


class WithholdingTap(StreamTap):
    """A stream in which the caller did not ask for usage: events that carry nothing else stay here.

    Whole events go on at once; only the beginning of an unfinished one waits for its end.
    """

    edits = True

    def edit(self, chunk: bytes) -> bytes:
        only = self._splitter.only(chunk)
        if only is not None:
            return b"" if self._show(*only) & USAGE_ONLY else chunk
        events = self._splitter.feed(chunk)
        return b"".join(
            [event for event in events if not self._show(*parse_event(event)) & USAGE_ONLY]
        )

    def held(self) -> bytes:
        return self._splitter.rest()


class TranslatingTap(StreamTap):
    """A stream in another format than the caller's: what goes on is written anew, event by
    event."""

    edits = True

    def __init__(self, call: Call, meter: UsageMeter, translation: Translation) -> None:
        super().__init__(call, meter)
        self._decoder = translation.upstream_codec.stream_decoder()
        self._encoder = translation.caller.stream_encoder(translation.context)
        self._finished = False
        self._written: list[bytes] = []

    def edit(self, chunk: bytes) -> bytes:
        """Raises :class:`UpstreamProtocolError` for what is not of the upstream's format; what came
        before it is then held."""
        for raw in self._splitter.feed(chunk):
            name, data = parse_event(raw)
            self._show(name, data)
            if name or data:
                self._write(self._decoder.event(name, data))
        # To the caller the last event is the one that is written for it, which may yet lack.
        self.last = self.last and self._finished
        return self.held()

    def complete(self) -> None:
        self._write(self._decoder.end())
        self.broken = not self._finished

    def held(self) -> bytes:
        written, self._written = self._written, []
        return b"".join(written)

    def _write(self, events: Sequence[StreamEvent]) -> None:
        for event in events:
            if isinstance(event, Finished):
                self._finished = self.terminal = True
            elif isinstance(event, Failed):
                self._finished = self.terminal = True
                self._call.broke_off = STREAM_ERROR
                self._call.fail("upstream_error", STREAM_ERROR)
            self._written.append(self._encoder.encode(event))


def make_tap(call: Call, exchange: Exchange) -> Tap:
    """The tap that fits the answer; encoded bodies and foreign content types are not looked
    into."""
    content_type = readable_type(exchange)
    if call.translation is not None and call.upstream_format is not None:
        return TranslatingTap(call, call.upstream_format.meter(), call.translation)
    if content_type.startswith(EVENT_STREAM):
        tap = WithholdingTap if call.withhold_usage else StreamTap
        return tap(call, call.wire_format.meter())
    if content_type.startswith(JSON):
        return BodyTap(call, call.wire_format.meter())
    return Tap()


def readable_type(exchange: Exchange) -> bytes:
    """The content type of a body that is not encoded, else nothing."""
    encoding = exchange.headers.get(b"content-encoding")
    if encoding is not None and encoding.lower() != b"identity":
        return b""
    return exchange.headers.get(b"content-type") or b""


def asked_units(wire_format: WireFormat, body: bytes) -> Mapping[str, int]:
    """What a request says that it uses; a failure to tell is logged and nothing else."""
    try:
        return wire_format.asked_units(body)
    except FAULTS:  # metering must never cost an answer
        _log.exception("the units that a request asks for cannot be told")
        return {}


def meter_body(meter: UsageMeter, body: bytes) -> None:
    """Shows a whole answer to ``meter``, whose failure is logged and nothing else."""
    try:
        meter.body(body)
    except FAULTS:  # metering must never cost an answer
        _log.exception("a meter failed; this answer is not metered")
