"""A proxy in Python that forwards and keeps nothing of what a gateway promises.

It stands on the event loop, the parser and the decoder that the gateway stands on, and does what
cannot be left out: it looks up a hashed key, reads ``model`` from the body, sends the request on
over a connection that is kept, reads the usage from the answer and appends a record to a list. It
has no policies, limits, deadlines, failover, spool, metrics or errors of its own. What lies between
it and the gateway is the price of a gateway; what lies between nginx and it, that of the language.
"""

from __future__ import annotations

import asyncio
import hashlib
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import httptools
import msgspec
import typer
import uvloop

from benchmarks.stacks import Ask, Stack, free_port

_KEY = "bare-key"


class Bare(Stack):
    """This program as a stack beside the others."""

    name = "bare"

    def start(self, scripts: Sequence[str]) -> None:
        self.port = free_port()
        ports = [str(self.port), str(self.upstream_port)]
        # It runs in a directory of its own, from which only the path finds the benchmarks.
        beside = {"PYTHONPATH": str(Path(__file__).parents[1])}
        self.run([sys.executable, "-m", "benchmarks.bare", *ports], beside)
        self.wait_until_it_listens()

    def version(self) -> str:
        return ".".join(map(str, sys.version_info[:3]))

    def path(self, ask: Ask) -> str:
        return "/v1/chat/completions"

    def headers(self, ask: Ask) -> Sequence[str]:
        return (f"Authorization: Bearer {_KEY}",)


class _Request(msgspec.Struct):
    model: str
    stream: bool = False


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Answer(msgspec.Struct):
    usage: _Usage | None = None


class _Proxy:
    """What the connections share."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.keys = {hashlib.sha256(f"Bearer {_KEY}".encode()).digest(): "key-1"}
        self.idle: list[_Upstream] = []
        self.request = msgspec.json.Decoder(_Request)
        self.answer = msgspec.json.Decoder(_Answer)
        self.records: list[tuple[str, str, int, float]] = []

    def record(self, key: str, model: str, tokens: int) -> None:
        self.records.append((key, model, tokens, time.time()))
        if len(self.records) > 1000:
            self.records.clear()


class _Caller(asyncio.Protocol):
    """A caller's connection."""

    def __init__(self, proxy: _Proxy) -> None:
        self._proxy = proxy
        self._key = ""
        self._body: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._parser = httptools.HttpRequestParser(self)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"authorization":
            self._key = self._proxy.keys[hashlib.sha256(value).digest()]

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        proxy = self._proxy
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        self._body.clear()
        model = proxy.request.decode(body).model
        head = (
            b"POST /%b/v1/chat/completions HTTP/1.1\r\nHost: upstream\r\n"
            b"Authorization: Bearer host-key\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n" % (model.removeprefix("bench-").encode(), len(body))
        )
        if proxy.idle:
            proxy.idle.pop().ask(self, self._key, model, (head, body))
            return
        loop = asyncio.get_running_loop()
        opened = loop.create_connection(lambda: _Upstream(proxy), "127.0.0.1", proxy.port)
        task = loop.create_task(opened)
        task.add_done_callback(
            lambda done: done.result()[1].ask(self, self._key, model, (head, body))
        )


class _Upstream(asyncio.Protocol):
    """A connection to the upstream."""

    def __init__(self, proxy: _Proxy) -> None:
        self._proxy = proxy
        self._caller: _Caller | None = None
        self._key = self._model = ""
        self._body: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._parser = httptools.HttpResponseParser(self)

    def ask(self, caller: _Caller, key: str, model: str, request: tuple[bytes, bytes]) -> None:
        self._caller, self._key, self._model = caller, key, model
        self._transport.writelines(request)

    def data_received(self, data: bytes) -> None:
        caller = self._caller
        self._parser.feed_data(data)
        if caller is not None:
            caller.transport.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        if self in self._proxy.idle:
            self._proxy.idle.remove(self)
        elif self._caller is not None:
            self._caller.transport.close()

    def on_body(self, body: bytes) -> None:
        if b'"usage"' in body:
            self._body.append(body)

    def on_message_complete(self) -> None:
        body, self._caller = b"".join(self._body), None
        self._body.clear()
        usage = self._proxy.answer.decode(body).usage if body.startswith(b"{") else None
        tokens = usage.prompt_tokens + usage.completion_tokens if usage is not None else 0
        self._proxy.record(self._key, self._model, tokens)
        self._proxy.idle.append(self)


def main(port: int, upstream: int) -> None:
    """Serves on ``port`` of the loopback what ``upstream`` answers, until it is killed."""

    async def serve() -> None:
        proxy = _Proxy(upstream)
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: _Caller(proxy), "127.0.0.1", port, backlog=4096)
        await server.serve_forever()

    uvloop.run(serve())


if __name__ == "__main__":
    typer.run(main)
