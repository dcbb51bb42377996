"""Writes canonical events as a stream of Responses.

The format says everything twice: in deltas, and whole at the end of each part, item and response.
So the answer is kept while it is streamed, up to a limit.
"""

from __future__ import annotations

from typing import Any

import msgspec

from relay_gateway.errors import UpstreamProtocolError
from relay_gateway.plugin.canonical import (
    ArgumentsDelta,
    Failed,
    Finished,
    PartStarted,
    PartStopped,
    ReasoningDelta,
    RefusalDelta,
    Signed,
    Started,
    StreamEvent,
    TextDelta,
    Usage,
    UsageSeen,
)
from relay_gateway.plugin.codec import AnswerContext, StreamEncoder
from relay_gateway.plugin.sequencer import MAX_HELD, Sequencer
from relay_gateway_provider_openai.responses_answers import end_members, frame_of
from relay_gateway_provider_openai.responses_items import (
    Event,
    OpenItem,
    RefusalItem,
    open_item,
)


class ResponsesStreamWriter(StreamEncoder):
    """Writes one stream; every part is an item of its own, one after the other.

    The format has room for items side by side, but the API itself does not write them so, and there
    are clients that count on it.
    """

    def __init__(self, context: AnswerContext) -> None:
        self._context = context
        self._sequencer = Sequencer()
        self._number = 0
        self._kept = 0
        self._response: dict[str, Any] = {}
        self._items: dict[int, OpenItem] = {}
        self._usage = Usage()

    def encode(self, event: StreamEvent) -> bytes:
        """The events for one event, and for those that had to wait for it."""
        return b"".join([self._write(each) for each in self._sequencer.feed(event)])

    def _write(self, event: StreamEvent) -> bytes:
        match event:
            case TextDelta() | RefusalDelta() | ReasoningDelta() | ArgumentsDelta():
                return self._delta(event)
            case PartStarted(index=index, part=part):
                item = self._items[index] = open_item(part, index, self._context)
                return self._told(item.begin())
            case Signed(index=index, blob=blob):
                self._items[index].sign(blob)
                return b""
            case PartStopped(index=index):
                return self._told(self._items[index].finish())
            case _:
                return self._frame(event)

    def _frame(self, event: StreamEvent) -> bytes:
        match event:
            case Started():
                self._response = frame_of(event.id, event.model, self._context)
                begun = ("response.created", "response.in_progress")
                return self._told([(kind, {"response": self._response}) for kind in begun])
            case UsageSeen(usage=usage):
                self._usage = usage.over(self._usage)
                return b""
            case Finished():
                return self._finish(event)
            case Failed():
                return self._fail(event)
            case _:
                return b""

    def _delta(self, event: TextDelta | RefusalDelta | ReasoningDelta | ArgumentsDelta) -> bytes:
        self._kept += len(event.text)
        if self._kept > MAX_HELD:
            raise UpstreamProtocolError("the answer is too long to be told in Responses")
        return self._told(self._items[event.index].more(event))

    def _finish(self, event: Finished) -> bytes:
        items = [item for _, item in sorted(self._items.items())]
        declined = any(isinstance(item, RefusalItem) for item in items)
        ended = end_members(event.stop, self._usage, declined=declined)
        response = self._response | {"output": [item.whole() for item in items]} | ended
        return self._told([(f"response.{ended['status']}", {"response": response})])

    def _fail(self, event: Failed) -> bytes:
        error = {"code": event.code, "message": event.message}
        response = self._response | {"status": "failed", "error": error}
        return self._told([("response.failed", {"response": response})])

    def _told(self, events: list[Event]) -> bytes:
        written = b""
        for kind, members in events:
            body = {"type": kind} | members | {"sequence_number": self._number}
            self._number += 1
            written += b"event: %s\ndata: %s\n\n" % (kind.encode(), msgspec.json.encode(body))
        return written
