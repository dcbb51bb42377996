"""Event streams made at random with what they must come to, run through the forwarder in pieces."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from relay_gateway.catalog.snapshot import Snapshot
from relay_gateway.pipeline.call import Call
from relay_gateway.pipeline.forward import Forwarder
from relay_gateway.plugin.wire import WireFormat
from relay_gateway.testing.accounts import FakeAccounts
from relay_gateway.testing.callers import FakeCaller
from relay_gateway.testing.catalog import PlainFormat
from relay_gateway.testing.exchanges import FakeExchange

_LINE_ENDS: Final = (b"\n", b"\r\n", b"\r")
_NO_CATALOG: Final = Snapshot()
_MOST_EVENTS = 8
_TEXT: Final = (b"a", b"data: x", b":", b" ", b"{}", b"\xc3\xa9", b"\xe2\x80\xa8", b"\xff", b"\0")


@dataclass(frozen=True, slots=True)
class MadeStream:
    """A stream, the bytes that remain of it without its usage events, and the last usage in it.

    ``mixed`` tells that other line ends than LF are in it: then a withheld event may take the LF of
    the CRLF before it along, and what remains is the same to a reader, but not to the byte.
    """

    data: bytes
    without_usage: bytes
    tokens: dict[str, int]
    mixed: bool


@dataclass(frozen=True, slots=True)
class Forwarded:
    """What became of a stream: the bytes for the caller and the tokens for the record."""

    data: bytes
    tokens: dict[str, int]
    complete: bool


class StreamMaker:
    """An endless supply of streams and of ways to cut them; the same ``seed`` gives the same."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - repeatable, not secret

    def stream(self) -> MadeStream:
        """A stream of up to eight events in the plain format, with its end mark last."""
        pick = self._random
        mixed = pick.random() < 0.5
        pieces: list[tuple[bytes, bool]] = []
        tokens: dict[str, int] = {}
        for _ in range(pick.randrange(_MOST_EVENTS)):
            if pick.random() < 0.25:
                given, taken = pick.randrange(10**6), pick.randrange(10**6)
                tokens = {"input": given, "output": taken}
                pieces.append((self._event(b"usage %d:%d" % (given, taken), mixed=mixed), True))
            else:
                pieces.append((self._event(self._text(), mixed=mixed), False))
        pieces.append((self._event(b"end", mixed=mixed), False))
        return MadeStream(
            b"".join(piece for piece, _ in pieces),
            b"".join(piece for piece, usage in pieces if not usage),
            tokens,
            mixed,
        )

    def pieces(self, data: bytes) -> list[bytes]:
        """``data`` cut at up to ten random places."""
        cuts = sorted(
            self._random.randrange(1, len(data)) for _ in range(self._random.randrange(11))
        )
        bounds = zip([0, *cuts], [*cuts, len(data)], strict=True)
        return [data[start:end] for start, end in bounds if end > start]

    def _text(self) -> bytes:
        return b"t" + b"".join(self._random.choices(_TEXT, k=self._random.randrange(6)))

    def _event(self, data: bytes, *, mixed: bool) -> bytes:
        lines = [b"data: " + data, b""]
        if self._random.random() < 0.2:
            lines.insert(0, b": comment")
        if self._random.random() < 0.2:
            lines.insert(0, b"event: e")
        made = b""
        for line in lines:
            ends = list(_LINE_ENDS if mixed else _LINE_ENDS[:1])
            if made.endswith(b"\r") and not line:
                ends.remove(b"\n")  # right after a CR it would be no line of its own
            made += line + self._random.choice(ends)
        return made


def forward(
    pieces: Sequence[bytes], *, withhold: bool, wire_format: WireFormat | None = None
) -> Forwarded:
    """Runs a stream through the forwarder, one piece per read."""
    wire_format = wire_format or PlainFormat()
    call = Call(wire_format.endpoints[0], wire_format, _NO_CATALOG, "192.0.2.1")
    call.withhold_usage = withhold
    exchange = FakeExchange(200, [(b"content-type", b"text/event-stream")])
    caller = FakeCaller(body=b"")
    accounts = FakeAccounts()
    Forwarder(call, caller, exchange, accounts, set()).begin(b"")
    for piece in pieces:
        exchange.push(piece)
    exchange.end()
    assert accounts.settled == [call], f"a stream was settled {len(accounts.settled)} times"
    account = (call.outcome, caller.bytes_out)
    assert accounts.accounted == [account], f"{accounts.accounted} was recorded of {account}"
    assert call.reading is not None, "a stream was not metered"
    return Forwarded(caller.body, call.reading.tokens, caller.finished and not caller.aborted)


def judge_stream(stream: MadeStream, pieces: Sequence[bytes]) -> None:
    """Raises ``AssertionError`` unless all bytes come out, or all but the usage events where those
    are withheld, and the usage is that of the stream."""
    whole = forward(pieces, withhold=False)
    assert whole == Forwarded(stream.data, stream.tokens, complete=True), f"{pieces}: {whole}"
    rest = forward(pieces, withhold=True)
    assert (rest.tokens, rest.complete) == (stream.tokens, True), f"{pieces}: {rest}"
    if stream.mixed:
        assert read_events(rest.data) == read_events(stream.without_usage), f"{pieces}: {rest}"
    else:
        assert rest.data == stream.without_usage, f"{pieces}: {rest}"


def read_events(stream: bytes) -> list[tuple[bytes, bytes]]:
    """Name and data of each event, as the standard's own algorithm reads line by line."""
    events: list[tuple[bytes, bytes]] = []
    name, data = b"", list[bytes]()
    text = stream.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    for line in text.split(b"\n")[:-1]:
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if not line:
            if data:
                events.append((name, b"\n".join(data)))
            name, data = b"", []
        elif field == b"data":
            data.append(value)
        elif field == b"event":
            name = value
    return events
