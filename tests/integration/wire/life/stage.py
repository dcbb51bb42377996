"""A handler that plays the part its path names, while tests watch its connection over time."""

from __future__ import annotations

import asyncio
import threading

from relay_gateway.http.exchange import CallerGoneError, ServerExchange

GET = b"GET /%b HTTP/1.1\r\nHost: a\r\n\r\n"


class Stage:
    """A handler that plays the part its path names, and lets the test's thread watch and cue it."""

    def __init__(self) -> None:
        self.cue = threading.Event()
        self.begun = threading.Event()
        self.gone = threading.Event()
        self.exchange: ServerExchange | None = None
        self.seen: list[str] = []
        self.pauses = 0

    async def __call__(self, exchange: ServerExchange) -> None:
        self.exchange = exchange
        self.seen.append(exchange.path)
        self.begun.set()
        await getattr(self, exchange.path.strip("/").partition("/")[0])(exchange)

    async def echo(self, exchange: ServerExchange) -> None:
        body = await exchange.read_body(2**20)
        exchange.respond(200, b"", exchange.path.encode() + body)

    async def wait(self, exchange: ServerExchange) -> None:
        """Answers when cued; ends when the caller leaves."""
        await self._wait_for_cue(exchange)
        if not self.gone.is_set():
            exchange.respond(200, b"", b"waited")

    async def stream(self, exchange: ServerExchange) -> None:
        """Sends one piece, waits for the cue, sends another one."""
        exchange.start(200, b"", None)
        exchange.write(b"one")
        await self._wait_for_cue(exchange)
        exchange.write(b"two")
        exchange.finish()

    async def refuse(self, exchange: ServerExchange) -> None:
        exchange.respond(403, b"", b"no")

    async def read(self, exchange: ServerExchange) -> None:
        try:
            await exchange.read_body(2**30)
        except CallerGoneError:
            self.gone.set()

    async def flood(self, exchange: ServerExchange) -> None:
        """Writes 64 MiB, without looking whether the caller takes it."""
        exchange.on_disconnect = self.gone.set
        exchange.start(200, b"", None)
        for _ in range(64):
            exchange.write(bytes(1024 * 1024))
        await self._wait_for_cue(exchange)

    async def obey(self, exchange: ServerExchange) -> None:
        """Writes 32 MiB in pieces of 64 KiB, and none while it is told to wait."""
        writable = asyncio.Event()
        writable.set()

        def flow(go_on: bool) -> None:
            self.pauses += not go_on
            (writable.set if go_on else writable.clear)()

        exchange.on_flow = flow
        exchange.start(200, b"", 512 * 65_536)
        for _ in range(512):
            await writable.wait()
            exchange.write(bytes(65_536))
        exchange.finish()

    async def crash(self, exchange: ServerExchange) -> None:
        raise ZeroDivisionError("the handler is broken")

    async def crash_late(self, exchange: ServerExchange) -> None:
        exchange.start(200, b"", None)
        exchange.write(b"one")
        raise ZeroDivisionError("the handler is broken")

    async def forget(self, exchange: ServerExchange) -> None:
        """Returns without an answer."""

    async def _wait_for_cue(self, exchange: ServerExchange) -> None:
        loop = asyncio.get_running_loop()
        left = asyncio.Event()

        def leave() -> None:
            self.gone.set()
            left.set()

        exchange.on_disconnect = leave
        cued = loop.run_in_executor(None, self.cue.wait, 10)
        waiting = asyncio.ensure_future(left.wait())
        await asyncio.wait((cued, waiting), return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        self.cue.set()
        await cued


def until(condition: threading.Event) -> bool:
    return condition.wait(10)
