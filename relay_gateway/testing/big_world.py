"""A gateway process between callers and a big upstream, for what memory it takes."""

from __future__ import annotations

import asyncio
import socket
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from relay_gateway.testing.big_upstream import BigUpstream
from relay_gateway.testing.memory import MIB, forget_peak, peak_bytes, resident_bytes
from relay_gateway.testing.raw_caller import RawCaller
from relay_gateway.testing.scenario import Scenario, running_scenario

_PIECE_BYTES = 256 * 1024
_SMALL_BUFFER = 4096
_STREAM = b'{"model":"m","stream":true}'


@dataclass(frozen=True, slots=True)
class BigWorld:
    """A running gateway with the model ``m``. Every figure is how many bytes more its process held
    at most than before."""

    scenario: Scenario
    upstream: BigUpstream
    port: int
    relay_key: str

    @property
    def pid(self) -> int:
        """The gateway's process."""
        return self.scenario.gateway.pid

    def head(self, length: int) -> bytes:
        """The head of a request with a body of ``length`` bytes."""
        return (
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n"
            f"Authorization: Bearer {self.relay_key}\r\nContent-Type: application/json\r\n\r\n"
        ).encode()

    def request(self, body: bytes) -> bytes:
        """A whole request."""
        return self.head(len(body)) + body

    async def send_bodies(self, count: int, size: int) -> int:
        """Sends ``count`` bodies of ``size`` bytes at once, and checks that all arrive whole."""
        base = self._base()
        body = large_body(size)
        await asyncio.gather(*(self._send(body) for _ in range(count)))
        return peak_bytes(self.pid) - base

    async def read_stream(self) -> tuple[int, int]:
        """Reads one stream to its end; the figure, and how many bytes it had."""
        base = self._base()
        received, last = 0, b""
        async with RawCaller(self.port) as caller:
            caller.send(self.request(_STREAM))
            while not last.endswith(b"0\r\n\r\n"):
                piece = await caller.reader.read(MIB)
                assert piece, "the stream was cut"
                received += len(piece)
                last = last[-5:] + piece[-5:]
        return peak_bytes(self.pid) - base, received

    async def read_nothing(self, readers: int) -> int:
        """Asks for ``readers`` streams and reads none, until nothing moves any more."""
        base = self._base()
        loop = asyncio.get_running_loop()
        sockets = [socket.socket() for _ in range(readers)]
        try:
            for one in sockets:
                one.setblocking(False)
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SMALL_BUFFER)
                await loop.sock_connect(one, ("127.0.0.1", self.port))
                await loop.sock_sendall(one, self.request(_STREAM))
            sent = -1
            while sent != self.upstream.sent:
                sent = self.upstream.sent
                await asyncio.sleep(0.5)
            return peak_bytes(self.pid) - base
        finally:
            for one in sockets:
                one.close()

    def _base(self) -> int:
        forget_peak(self.pid)
        return resident_bytes(self.pid)

    async def _send(self, body: bytes) -> None:
        async with RawCaller(self.port, seconds=120) as caller:
            caller.send(self.head(len(body)))
            view = memoryview(body)
            for start in range(0, len(body), _PIECE_BYTES):
                caller.send(view[start : start + _PIECE_BYTES])
                await caller.writer.drain()
            answer = await caller.read_answer()
            assert (answer.status, answer.complete) == (200, True), answer
            assert answer.body == b"%d %d" % (len(body), zlib.crc32(body))


def large_body(size: int) -> bytes:
    """A request body of ``size`` bytes."""
    begin, end = b'{"model":"m","x":"', b'"}'
    return begin + b"a" * (size - len(begin) - len(end)) + end


@asynccontextmanager
async def big_world(
    directory: Path, *, adapter: str, path: str = "/v1", stream_bytes: int, frugal: bool = False
) -> AsyncIterator[BigWorld]:
    """A gateway that has had its first requests; ``adapter`` speaks to the upstream below ``path``,
    which is ``frugal`` with the memory of the kernel."""
    environ = {"ACME_API_KEY": "sk-made-up", "RELAY_LOG_LEVEL": "warning"}
    async with (
        BigUpstream(stream_bytes, frugal=frugal) as upstream,
        running_scenario(directory, lambda _: [], environ) as scenario,
    ):
        provider = await scenario.create("providers", "Acme")
        url = upstream.url + path
        host = await scenario.create(
            "hosts", "Acme", baseUrl=url, adapter=adapter, maxConnections=4000
        )
        bindings = [{"hostId": host}]
        await scenario.create("models", "M", name="m", providerId=provider, bindings=bindings)
        policy = await scenario.create("policies", "All", models=["*"])
        source = {"kind": "env", "env": "ACME_API_KEY"}
        await scenario.create("host-keys", "Key", hostId=host, policyId=policy, valueFrom=source)
        relay_key = await scenario.relay_key("app", policy)
        port = int(scenario.gateway.inference_url.rpartition(":")[2])
        world = BigWorld(scenario, upstream, port, relay_key)
        await world.send_bodies(20, 100_000)
        yield world
