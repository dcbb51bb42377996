"""The text of a streamed answer, put together from its events."""

from __future__ import annotations

import logging

from relay_gateway.errors import FAULTS
from relay_gateway.http.sse import EventSplitter, parse_event
from relay_gateway.plugin.canonical import TextDelta
from relay_gateway.plugin.codec import StreamDecoder
from relay_gateway.plugin.wire import WireFormat

_log = logging.getLogger(__name__)


def assembled_text(wire_format: WireFormat, body: bytes) -> str | None:
    """The text that ``body`` streams, as far as it can be read; ``None`` where the format has no
    codec that could."""
    codec = wire_format.codec()
    if codec is None:
        return None
    texts: dict[int, list[str]] = {}
    decoder = codec.stream_decoder()
    for event in EventSplitter().feed(body):
        try:
            _read(decoder, event, texts)
        except FAULTS as error:  # a codec raises what it likes
            _log.debug("the text of a stream ends early: %s", type(error).__name__)
            break
    return "\n\n".join("".join(pieces) for _, pieces in sorted(texts.items()))


def _read(decoder: StreamDecoder, event: bytes, texts: dict[int, list[str]]) -> None:
    name, data = parse_event(event)
    if not name and not data:
        return
    for one in decoder.event(name, data):
        if isinstance(one, TextDelta):
            texts.setdefault(one.index, []).append(one.text)
