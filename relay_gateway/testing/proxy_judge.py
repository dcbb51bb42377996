"""Whether requests in proxy mode are the same on the other side of the gateway, and their answers:
each is sent directly and through it, and only what the documentation lists may differ."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import h11

from relay_gateway.testing.ledger import SeenRequest
from relay_gateway.testing.proxy_cases import Fields, ProxyCase
from relay_gateway.testing.script import Script, response
from relay_gateway.testing.upstream import ScriptedUpstream

_SECONDS = 60.0
_PER_CONNECTION = frozenset(
    {b"connection", b"keep-alive", b"te", b"trailer", b"upgrade", b"transfer-encoding", b"x-hop"}
)
_FRAMING = frozenset({b"content-length", b"transfer-encoding"})
_OWN = (b"x-relay-", b"x.relay.")


@dataclass(frozen=True, slots=True)
class WholeAnswer:
    """An answer as another HTTP library reads it."""

    status: int
    fields: Fields
    body: bytes


class PlainCaller:
    """Sends bytes to a port and reads answers with h11; an async context manager."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._close()

    async def ask(self, method: str, request: bytes) -> WholeAnswer:
        """The answer to ``request``, on the connection of the last one where that is still open."""
        async with asyncio.timeout(_SECONDS):
            if self._writer is None:
                opened = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 20)
                self._reader, self._writer = opened
            self._writer.write(request)
            return await self._read(method)

    async def _read(self, method: str) -> WholeAnswer:
        assert self._reader is not None
        parser = h11.Connection(h11.CLIENT, max_incomplete_event_size=1 << 20)
        parser.send(h11.Request(method=method, target="/", headers=[("host", "a")]))
        parser.send(h11.EndOfMessage())
        head: h11.Response | None = None
        pieces: list[bytes] = []
        while True:
            event = parser.next_event()
            if event is h11.NEED_DATA:
                parser.receive_data(await self._reader.read(1 << 18))
            elif isinstance(event, h11.Response):
                head = event
            elif isinstance(event, h11.Data):
                pieces.append(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
                break
        assert head is not None
        if parser.our_state is h11.MUST_CLOSE or parser.their_state is not h11.DONE:
            await self._close()
        return WholeAnswer(head.status_code, list(head.headers.raw_items()), b"".join(pieces))

    async def _close(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()


class ProxyJudge:
    """Compares cases one by one. ``upstream`` must have :meth:`script_of` as its ``answer``."""

    def __init__(self, port: int, relay_key: str) -> None:
        self._relay_key = relay_key.encode()
        self._gateway = PlainCaller(port)
        self._case: ProxyCase | None = None
        self.compared = 0
        self.seen: Counter[str] = Counter()
        """How many cases there were of each kind, so that none is missing unnoticed."""

    def script_of(self, request: SeenRequest) -> Script:
        """What the upstream answers at the moment."""
        return response(500) if self._case is None else self._case.script

    async def compare(
        self, cases: Iterable[ProxyCase], upstream: ScriptedUpstream, prefix: str
    ) -> None:
        """Sends each of ``cases`` both ways. Raises ``AssertionError`` with the number of the
        first that differs."""
        async with self._gateway, PlainCaller(upstream.port) as direct:
            for case in cases:
                self._case = case
                plain = await direct.ask(case.method, case.request("", []))
                told = await self._gateway.ask(case.method, case.request(prefix, self._own()))
                first, second = upstream.ledger
                upstream.ledger.clear()
                self.seen[_kind_of(case)] += 1
                for connection in upstream.connections:
                    connection.received.clear()
                _compare_requests(case, first, second, upstream.port)
                _compare_answers(case, plain, told)
                self.compared += 1

    def _own(self) -> Fields:
        return [(b"X-Relay-API-Key", self._relay_key), (b"x-relay-proxy-mode", b"Proxy")]


def _kind_of(case: ProxyCase) -> str:
    framing = case.framing[0][0].decode().lower() if case.framing else "no body"
    size = "large" if len(case.content) > 1024 * 1024 else "small"
    return f"{case.method}, {framing}, {size}"


def _compare_requests(case: ProxyCase, first: SeenRequest, second: SeenRequest, port: int) -> None:
    where = f"case {case.number}"
    assert (second.method, second.target) == (first.method, first.target), where
    assert second.body == first.body == case.content, where
    authority = b"127.0.0.1:%d" % port
    expected = [
        (name, authority if name == b"Host" else value)
        for name, value in first.headers
        if not _is_dropped(name.lower(), {b"cookie"})
    ]
    assert list(second.headers) == expected, where


def _compare_answers(case: ProxyCase, plain: WholeAnswer, told: WholeAnswer) -> None:
    where = f"case {case.number}"
    assert (told.status, told.body) == (plain.status, plain.body), where
    assert (plain.status, plain.body) == (case.status, case.answer), where
    besides = {b"set-cookie"}
    expected = [field for field in plain.fields if not _is_dropped(field[0].lower(), besides)]
    dated = any(name.lower() == b"date" for name, _ in expected)
    ours = _PER_CONNECTION | _FRAMING | (frozenset() if dated else frozenset({b"date"}))
    found = [
        (name, value)
        for name, value in told.fields
        if name.lower() not in ours and not name.lower().startswith(_OWN)
    ]
    assert found == [field for field in expected if field[0].lower() not in _FRAMING], where
    length = [value for name, value in plain.fields if name.lower() == b"content-length"]
    told_length = [value for name, value in told.fields if name.lower() == b"content-length"]
    assert told_length == length, where


def _is_dropped(name: bytes, besides: set[bytes]) -> bool:
    dropped = name in besides or (name in _PER_CONNECTION and name not in _FRAMING)
    return dropped or name.startswith(_OWN)
