"""Streams of one wire format run through the forwarder for callers of another, in pieces, with
noise that means nothing, and cut."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

from relay_gateway.catalog.snapshot import Snapshot
from relay_gateway.errors import UpstreamError
from relay_gateway.pipeline.call import Call
from relay_gateway.pipeline.forward import Forwarder
from relay_gateway.pipeline.translate import Translation
from relay_gateway.plugin import AnswerContext, WireFormat
from relay_gateway.plugin.canonical import CanonicalRequest
from relay_gateway.testing.accounts import FakeAccounts
from relay_gateway.testing.answer_pieces import assembled, read_stream
from relay_gateway.testing.callers import FakeCaller
from relay_gateway.testing.exchanges import FakeExchange
from relay_gateway.testing.speakers.scene import Asked, Reply
from relay_gateway.testing.speakers.scene import Call as ToolCall

_WORDS: Final = ("a", "é", "😀", "\n", "data: x", "\u2028", '"}', "\\", " ", "[DONE]")
_NOISE: Final = (b": busy\n\n", b":\n\n", b"retry: 3000\n\n", b"\n")
_LINE_ENDS: Final = (b"\n", b"\r\n", b"\r")


@dataclass(frozen=True, slots=True)
class Translated:
    """What a caller got; ``complete`` is false where its connection was broken off."""

    data: bytes
    complete: bool
    outcome: str


def translate(
    pieces: Sequence[bytes],
    upstream: WireFormat,
    caller: WireFormat,
    failure: UpstreamError | None = None,
) -> Translated:
    """Runs a stream of ``upstream`` to a caller of ``caller``; it ends regularly, or by
    ``failure``."""
    call = Call(caller.endpoints[0], caller, Snapshot(), "192.0.2.1")
    call.request_id = "01890000-0000-7000-8000-000000000000"
    call.streamed, call.upstream_format = True, upstream
    reader, writer = upstream.codec(), caller.codec()
    assert reader is not None
    assert writer is not None
    asked = CanonicalRequest(model="m", messages=(), stream=True, stream_usage=True)
    call.translation = Translation(asked, writer, reader, AnswerContext(asked, "answer", 1))
    exchange = FakeExchange(200, [(b"content-type", b"text/event-stream")])
    receiver = FakeCaller(body=b"")
    accounts = FakeAccounts()
    forwarder = Forwarder(call, receiver, exchange, accounts, set())
    forwarder.begin(b"")
    for piece in pieces:
        exchange.push(piece)
    if failure is None:
        exchange.end()
    else:
        exchange.fail(failure)
    assert accounts.settled == [call], f"a stream was settled {len(accounts.settled)} times"
    account = (call.outcome, receiver.bytes_out)
    assert accounts.accounted == [account], f"{accounts.accounted} was recorded of {account}"
    return Translated(receiver.body, receiver.finished and not receiver.aborted, call.outcome)


class TranslationMaker:
    """An endless supply of answers in several formats; the same ``seed`` gives the same.

    ``formats`` are what hosts and callers speak, each with the speaker that writes it.
    """

    def __init__(self, formats: Mapping[str, tuple[WireFormat, ModuleType]], seed: int) -> None:
        self._formats = formats
        self._random = random.Random(seed)  # noqa: S311 - repeatable, not secret

    def pair(self) -> tuple[str, str]:
        """Names of two formats: the upstream's and another one for the caller."""
        upstream, caller = self._random.sample(sorted(self._formats), 2)
        return upstream, caller

    def stream(self, name: str) -> list[bytes]:
        """The events of any answer in the format ``name``."""
        pick = self._random
        count = pick.choice((0, 0, 1, 2))
        calls = tuple(
            ToolCall(f"call_{number}", f"tool_{number}", json.dumps(self._arguments()))
            for number in range(count)
        )
        stop = "tools" if calls else pick.choice(("end", "length"))
        text = self._text() if pick.random() < 0.8 or not calls else ""
        reply = Reply(text, self._text() if pick.random() < 0.3 else "", calls, stop)
        return list(self._formats[name][1].events(reply, Asked("", "m", streamed=True)))

    def disturbed(self, events: Sequence[bytes]) -> list[bytes]:
        """The same stream with comments between its events and other line ends, cut at random."""
        pick = self._random
        end = pick.choice(_LINE_ENDS)
        noisy = b"".join(
            (pick.choice(_NOISE) if pick.random() < 0.2 else b"") + event for event in events
        )
        return self.pieces(noisy.replace(b"\n", end))

    def pieces(self, data: bytes) -> list[bytes]:
        """``data`` cut at up to ten random places."""
        size = self._random.randrange(11)
        cuts = sorted(self._random.randrange(1, len(data)) for _ in range(size))
        bounds = zip([0, *cuts], [*cuts, len(data)], strict=True)
        return [data[start:end] for start, end in bounds if end > start]

    def place(self, data: bytes) -> int:
        """Where to cut it off."""
        return self._random.randrange(len(data))

    def _text(self) -> str:
        return "t" + "".join(self._random.choices(_WORDS, k=self._random.randrange(9)))

    def _arguments(self) -> dict[str, Any]:
        return {self._text(): [self._text(), {"deep": self._random.random() < 0.5}]}


def judge_translation(
    maker: TranslationMaker, formats: Mapping[str, tuple[WireFormat, ModuleType]]
) -> None:
    """One case: an answer is told the same however it comes, and half of it never as a whole one.

    Raises ``AssertionError`` with what was found.
    """
    upstream, caller = maker.pair()
    events = maker.stream(upstream)
    there, here = formats[upstream][0], formats[caller][0]
    whole = translate([b"".join(events)], there, here)
    assert (whole.complete, whole.outcome) == (True, "ok"), f"{upstream} to {caller}: {whole}"
    pieces = maker.disturbed(events)
    told = translate(pieces, there, here)
    assert told == whole, f"{upstream} to {caller}: {pieces}: {told}"
    data = b"".join(events)
    judge_cut(data[: maker.place(data)], whole, there, here)


def _said(told: Translated, caller: WireFormat) -> tuple[object, ...]:
    codec = caller.codec()
    assert codec is not None
    answer = assembled(read_stream(codec.stream_decoder(), [told.data]))
    return answer.parts, answer.stop


def judge_cut(
    left: bytes,
    whole: Translated,
    upstream: WireFormat,
    caller: WireFormat,
    failure: UpstreamError | None = None,
) -> None:
    """Half of a stream is a beginning of the whole one, an error event and a broken connection.

    Where everything but the figures had been said, with the reason to stop, it may end cleanly:
    there are hosts that say no more. What breaks off after the last event is a whole answer.
    """
    told = translate([left], upstream, caller, failure)
    if told.complete:
        assert failure is None, f"a clean end although the upstream failed: {told}"
        assert _said(told, caller) == _said(whole, caller), f"a clean end of {left!r}: {told}"
        return
    if told.outcome == "ok":
        assert told.data == whole.data, f"accounted for before it had gone out: {left!r}: {told}"
        return
    beginning, _, _ = told.data.rpartition(b"\n\n\n")
    # The blank line that keeps the error event apart, after events that end with one.
    assert whole.data.startswith(beginning), f"{left!r}: {told}"
    assert b"broke off" in told.data[len(beginning) :], f"{left!r}: {told}"
    assert told.outcome != "ok", f"{left!r}: {told}"
