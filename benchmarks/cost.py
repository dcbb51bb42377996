"""What one request costs in things that noise cannot move: calls, and objects that stay behind.

``python -m benchmarks.cost`` prints the figures, with ``--record`` it writes them down as the
budget that a test holds the gateway to. Everything takes turns: one thread plays caller and
upstream and goes on only when the gateway has answered, so that each run makes the same calls. The
gateway is the real one over real sockets, without a usage sink, whose batches depend on time.
"""

from __future__ import annotations

import asyncio
import base64
import gc
import os
import secrets
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Generic, TypeVar

import httpx
import msgspec
import typer

import relay_gateway.server.assembly
from benchmarks.relay import CREDENTIALS, make_catalog
from benchmarks.stacks import Ask
from relay_gateway.secret import Secret
from relay_gateway.server.listen import Started, serve
from relay_gateway.settings import Settings
from relay_gateway.settings.model import UsageLogging

FoundT = TypeVar("FoundT")
BUDGET = Path(__file__).parent / "budget.json"
REQUESTS = 100
EVENTS = 500
TIMES = 3
_TIMEOUT = 10.0

_ANSWER_BODY = (
    b'{"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"bench",'
    b'"choices":[{"index":0,"message":{"role":"assistant","content":"%b"},'
    b'"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":12,'
    b'"total_tokens":21}}' % (b"x" * 800)
)
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
    len(_ANSWER_BODY),
    _ANSWER_BODY,
)
_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)
_EVENT = (
    b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,'
    b'"model":"bench","choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}]}\n\n'
)


class Cost(msgspec.Struct, frozen=True):
    """Figures of one Python version. ``left_behind`` counts memory blocks that a request leaves to
    the garbage collector, ``calls`` those of Python and built-in functions."""

    calls_per_request: float
    calls_per_event: float
    left_behind_per_request: float


class Loop:
    """The gateway's event loop, on whose thread things are counted."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._calls = 0

    def do(self, action: Callable[[], Any]) -> Any:
        """Has ``action`` done there, and waits for it."""

        async def act() -> Any:
            return action()

        return asyncio.run_coroutine_threadsafe(act(), self._loop).result(_TIMEOUT)

    def calls_of(self, work: Callable[[], None]) -> int:
        """How many calls the loop's thread makes while ``work`` is done by this one."""
        self._calls = 0
        self.do(lambda: sys.setprofile(self._count))
        work()
        self.do(lambda: sys.setprofile(None))
        return self._calls

    def cpu_of(self, work: Callable[[], None]) -> float:
        """Seconds of CPU that the loop's thread uses while ``work`` is done by this one."""
        before: float = self.do(time.thread_time)
        work()
        after: float = self.do(time.thread_time)
        return after - before

    def blocks_left_by(self, work: Callable[[], None]) -> int:
        """How many blocks of memory are left that only a collection frees."""
        self.do(gc.collect)
        self.do(gc.disable)
        work()
        grown = self.do(sys.getallocatedblocks)
        self.do(gc.collect)
        left = grown - self.do(sys.getallocatedblocks)
        self.do(gc.enable)
        return int(left)

    def _count(self, frame: FrameType, event: str, argument: object) -> None:
        if event in ("call", "c_call"):
            self._calls += 1


class Conversation:
    """Both ends of the gateway in one thread: the caller's socket and the upstream's."""

    def __init__(self, gateway: tuple[str, int], upstream: socket.socket, relay_key: str) -> None:
        self._caller = socket.create_connection(gateway, timeout=_TIMEOUT)
        self._listener = upstream
        self._upstream: socket.socket | None = None
        self._authorization = b"Authorization: Bearer %b\r\n" % relay_key.encode()

    def request(self) -> None:
        """A request and its answer."""
        upstream = self._ask(streamed=False)
        upstream.sendall(_ANSWER)
        self._read_until(_ANSWER_BODY[-20:])

    def stream(self, events: int) -> None:
        """A request and the events of its answer, each read before the next is sent."""
        upstream = self._ask(streamed=True)
        chunk = b"%x\r\n%b\r\n" % (len(_EVENT), _EVENT)
        upstream.sendall(_STREAM_HEAD + chunk)
        self._read_until(_EVENT[-20:])
        for _ in range(events - 1):
            upstream.sendall(chunk)
            self._read_until(_EVENT[-20:])
        upstream.sendall(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
        self._read_until(b"0\r\n\r\n")

    def _ask(self, *, streamed: bool) -> socket.socket:
        body = Ask("cost", 1024, streamed=streamed).body()
        head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nUser-Agent: cost/1\r\n"
        fields = b"Content-Type: application/json\r\nContent-Length: %d\r\n" % len(body)
        self._caller.sendall(b"".join((head, self._authorization, fields, b"\r\n", body)))
        if self._upstream is None:
            self._upstream, _ = self._listener.accept()
            self._upstream.settimeout(_TIMEOUT)
        received = b""
        while not received.endswith(body[-20:]):
            received += self._upstream.recv(65536)
        return self._upstream

    def _read_until(self, end: bytes) -> None:
        received = b""
        while end not in received:
            piece = self._caller.recv(65536)
            if not piece:
                raise ConnectionError(f"the gateway closed the connection after {received!r}")
            received += piece


def measure() -> Cost:
    """The cost of a request, in a gateway that is started for it."""
    return with_gateway(_count)


def with_gateway(measured: Callable[[Conversation, Loop], FoundT]) -> FoundT:
    """Starts a gateway in this process, has it measured, and ends it."""
    relay_gateway.server.assembly.SQLITE_POLL = 3600.0  # its queries would be counted too
    os.environ.update(CREDENTIALS)
    with tempfile.TemporaryDirectory() as directory:
        driver = _Driver(measured)
        settings = Settings(
            data_dir=Path(directory),
            port=0,
            control_port=0,
            admin_token=Secret(driver.token),
            master_key=(Secret(base64.b64encode(secrets.token_bytes(32)).decode()),),
            log_level="error",
            usage_logging=UsageLogging(sinks=()),
        )
        serve(settings, announce=driver.begin)
    return driver.result()


class _Driver(Generic[FoundT]):
    """The thread beside the gateway's."""

    def __init__(self, measured: Callable[[Conversation, Loop], FoundT]) -> None:
        self.token = secrets.token_urlsafe(32)
        self._measured = measured
        self._found: list[FoundT] = []
        self._failure: list[BaseException] = []

    def begin(self, started: Started) -> None:
        loop = Loop(asyncio.get_running_loop())
        threading.Thread(target=self._drive, args=(started, loop)).start()

    def result(self) -> FoundT:
        if self._failure:
            raise self._failure[0]
        return self._found[0]

    def _drive(self, started: Started, loop: Loop) -> None:
        try:
            self._found.append(self._measure(started, loop))
        except BaseException as error:  # noqa: BLE001 - raised where the result is asked for
            self._failure.append(error)
        finally:
            loop.do(_terminate)

    def _measure(self, started: Started, loop: Loop) -> FoundT:
        with socket.create_server(("127.0.0.1", 0)) as upstream:
            upstream.settimeout(_TIMEOUT)
            headers = {"authorization": f"Bearer {self.token}"}
            url = started.control_url or ""
            with httpx.Client(base_url=url, headers=headers, trust_env=False) as admin:
                relay_key = make_catalog(admin, upstream.getsockname()[1], ["cost"])
            host, port = started.inference_url.removeprefix("http://").split(":")
            return self._measured(Conversation((host, int(port)), upstream, relay_key), loop)


def _count(conversation: Conversation, loop: Loop) -> Cost:
    def requests() -> None:
        for _ in range(REQUESTS):
            conversation.request()

    def stream() -> None:
        conversation.stream(EVENTS)

    requests()
    stream()
    return Cost(
        calls_per_request=quietest(loop.calls_of, requests) / REQUESTS,
        calls_per_event=quietest(loop.calls_of, stream) / EVENTS,
        left_behind_per_request=quietest(loop.blocks_left_by, requests) / REQUESTS,
    )


def quietest(measured: Callable[[Callable[[], None]], int], work: Callable[[], None]) -> int:
    """The smallest of several figures: what the gateway does every few seconds besides, like its
    sign of life in the database, is no part of the others."""
    return min(measured(work) for _ in range(TIMES))


def _terminate() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def main(
    record: Annotated[  # noqa: FBT002 - a flag of a command
        bool, typer.Option("--record", help="Write the figures down as the budget.")
    ] = False,
) -> None:
    """Prints what a request costs on this version of Python."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    cost = measure()
    sys.stdout.write(msgspec.json.encode(cost).decode() + "\n")
    if record:
        budget = msgspec.json.decode(BUDGET.read_bytes(), type=dict[str, Cost])
        budget[version] = cost
        BUDGET.write_bytes(msgspec.json.format(msgspec.json.encode(budget), indent=2) + b"\n")


if __name__ == "__main__":
    typer.run(main)
