"""A caller of the inference plane in memory: what the pipeline sees instead of a socket."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from relay_gateway.errors import RequestRefusedError
from relay_gateway.http.exchange import CallerGoneError
from relay_gateway.http.message import Header, Headers, HeadMemory
from relay_gateway.http.request_body import BodyReader


class FakeCaller:
    """One request and the record of its answer; the rules are those of the real server exchange.

    The body is there from the start unless ``body`` is ``None``; then :meth:`send_body` brings it.
    """

    def __init__(
        self,
        method: str = "POST",
        path: str = "/",
        *,
        query: bytes = b"",
        headers: Sequence[Header] = (),
        body: bytes | None = b"",
        http_version: str = "1.1",
        client_address: str = "127.0.0.1",
    ) -> None:
        self.method = method
        self.path = path
        self.query = query
        self.headers = Headers(headers)
        self.memory = HeadMemory()
        self.body_complete = False
        """Whether the pipeline may take the body without a task; the test sets it."""
        self.http_version = http_version
        self.client_address = client_address
        self.content_length = None if body is None else len(body)
        self.started = False
        self.finished = False
        """Whether the answer ended, in one way or the other."""
        self.disconnected = False
        self.bytes_out = 0
        self.status = 0
        self.header_block = b""
        self.length: int | None = None
        """What :meth:`start` announced; ``None`` for a chunked answer."""
        self.chunks: list[bytes] = []
        self.aborted = False
        """Whether the answer ended incomplete."""
        self._request_body = body
        self._awaited = False
        self._then: Callable[[], None] | None = None
        self._handler: asyncio.Task[Any] | None = None
        self._blocked = False
        self._on_disconnect: Callable[[], None] | None = None
        self._on_flow: Callable[[bool], None] | None = None
        self._changed = asyncio.Event()

    # What the pipeline uses.

    @property
    def on_disconnect(self) -> Callable[[], None] | None:
        """Called once when the caller leaves before the end; at once where it has left already."""
        return self._on_disconnect

    @on_disconnect.setter
    def on_disconnect(self, callback: Callable[[], None] | None) -> None:
        self._on_disconnect = callback
        if callback is not None and self.disconnected and not self.finished:
            callback()

    @property
    def on_flow(self) -> Callable[[bool], None] | None:
        """Called with false to stop writing and with true to go on; at once where blocked."""
        return self._on_flow

    @on_flow.setter
    def on_flow(self, callback: Callable[[bool], None] | None) -> None:
        self._on_flow = callback
        if callback is not None and self._blocked:
            callback(False)

    async def read_body(self, limit: int) -> bytes:
        """The request body.

        Raises a 413 refusal beyond ``limit`` bytes and :class:`CallerGoneError` on a disconnect.
        """
        self._handler = asyncio.current_task()
        self._awaited = True
        while self._request_body is None and not self.disconnected:
            await self._next_change()
        self._awaited = False
        if self._request_body is None:
            raise CallerGoneError("the caller closed its connection")
        if len(self._request_body) > limit:
            message = f"the body has {len(self._request_body)} bytes, the limit is {limit}"
            raise RequestRefusedError(413, "request_too_large", message)
        return self._request_body

    def when_body(self, limit: int, then: Callable[[], None]) -> None:
        """Has ``then`` called when the request body is there or the caller has left; at once where
        it is there, whatever ``limit`` says."""
        del limit
        self._then = then
        if self._request_body is not None:
            self._tell()

    def _tell(self) -> None:
        then, self._then = self._then, None
        if then is not None:
            then()

    def take_body(self, limit: int) -> bytes:
        """The request body, which must be there. Raises as :meth:`read_body`."""
        if self._request_body is None and self.disconnected:
            raise CallerGoneError("the caller closed its connection")
        body = self._request_body or b""
        if len(body) > limit:
            message = f"the body has {len(body)} bytes, the limit is {limit}"
            raise RequestRefusedError(413, "request_too_large", message)
        return body

    async def read_beginning(self, limit: int) -> bytes:
        """The whole request body, which is never too long for any ``limit`` here."""
        del limit
        return await self.read_body(sys.maxsize)

    def stream_body(self, reader: BodyReader) -> None:
        """Hands over the request body, which must be there, in one piece."""
        if self._request_body:
            reader.piece(self._request_body)
        reader.complete()

    def pause_body(self) -> None:
        """Everything has been handed over already."""

    def resume_body(self) -> None:
        """The same."""

    def drop_body(self) -> None:
        """The same."""

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Goes on in a task, which :meth:`disconnect` cancels."""
        self._handler = asyncio.get_running_loop().create_task(work)

    def respond(self, status: int, headers: bytes, body: bytes) -> None:
        """A whole answer at once."""
        self.start(status, headers, len(body))
        self.write(body)
        self.finish()

    def start(
        self, status: int, headers: bytes, length: int | None, *, dated: bool = False
    ) -> None:
        """Status and header block of an answer whose body follows.

        Raises ``RuntimeError`` for a second answer and for a block that is none.
        """
        if self.started:
            raise RuntimeError("an answer was started twice")
        if dated and not Headers(_fields(headers)).has_any(frozenset({b"date"})):
            raise RuntimeError("an answer that has its own Date lacks it")
        if headers and not headers.endswith(b"\r\n"):
            raise RuntimeError("the last line of the header block lacks its CRLF")
        self.started = True
        if self.finished or self.disconnected:
            return
        self.status = status
        self.header_block = headers
        self.length = length
        self._notify()

    def write(self, data: bytes) -> None:
        """A piece of the body; nothing after the end or a disconnect.

        One beyond the announced length aborts. Raises ``RuntimeError`` before :meth:`start`.
        """
        if not self.started:
            raise RuntimeError("a body was written before the answer was started")
        if not data or self.finished or self.disconnected or self.method == "HEAD":
            return
        if self.length is not None and self.bytes_out + len(data) > self.length:
            self.abort()
            return
        self.chunks.append(bytes(data))
        self.bytes_out += len(data)
        self._notify()

    def finish(self) -> None:
        """The regular end; an answer shorter than announced is aborted instead.

        Raises ``RuntimeError`` before :meth:`start`.
        """
        if not self.started:
            raise RuntimeError("an answer was finished that had not been started")
        if self.finished:
            return
        short = self.length is not None and self.bytes_out < self.length
        if short and not self.disconnected and self.method != "HEAD":
            self.abort()
            return
        self.finished = True
        self._notify()

    def abort(self) -> None:
        """The irregular end: the caller sees a broken connection. Nothing after the end."""
        if self.finished:
            return
        self.finished = self.aborted = True
        self._notify()

    # What the test does.

    async def until_run(self) -> None:
        """Waits until the body was taken and the task that it was run in, if any, has ended."""
        while self._then is not None:
            await self._next_change()
        if self._handler is not None:
            await self._handler

    @property
    def body(self) -> bytes:
        """All that was written so far."""
        return b"".join(self.chunks)

    @property
    def answer_headers(self) -> Headers:
        """The header block of the answer, parsed."""
        return Headers(_fields(self.header_block))

    def send_body(self, body: bytes) -> None:
        """Brings the body of a request made with ``body=None``."""
        self._request_body = body
        self._tell()
        self._notify()

    def disconnect(self) -> None:
        """The caller goes away: a pending :meth:`read_body` raises, else ``on_disconnect`` is
        called, or without one the task that read the body is cancelled; nothing happens after
        the end."""
        if self.disconnected or self.finished:
            return
        self.disconnected = True
        awaited = self._awaited or self._then is not None
        self._tell()
        self._notify()
        if awaited:
            return
        if self._on_disconnect is not None:
            self._on_disconnect()
        elif self._handler is not None:
            self._handler.cancel()

    def block(self) -> None:
        """The caller stops reading: asks the writer to stop."""
        self._flow(writable=False)

    def unblock(self) -> None:
        """The caller reads again."""
        self._flow(writable=True)

    async def until(self, condition: Callable[[], bool], *, seconds: float = 5.0) -> None:
        """Waits until something was called here that makes ``condition`` true.

        Raises ``AssertionError`` when that takes too long.
        """
        try:
            async with asyncio.timeout(seconds):
                while not condition():
                    await self._next_change()
        except TimeoutError as error:
            raise AssertionError(f"not within {seconds} s; so far {self!r}") from error

    async def wait_for_end(self, *, seconds: float = 5.0) -> None:
        """Waits until the answer was finished or aborted."""
        await self.until(lambda: self.finished, seconds=seconds)

    def __repr__(self) -> str:
        state = "aborted" if self.aborted else "finished" if self.finished else "open"
        return (
            f"<FakeCaller {self.method} {self.path}: status {self.status or '-'}, "
            f"{len(self.chunks)} chunks, {self.bytes_out} bytes, {state}>"
        )

    def _flow(self, *, writable: bool) -> None:
        self._blocked = not writable
        if self._on_flow is not None and not self.finished:
            self._on_flow(writable)

    def _notify(self) -> None:
        self._changed.set()

    async def _next_change(self) -> None:
        self._changed.clear()
        await self._changed.wait()


def _fields(block: bytes) -> list[Header]:
    pairs = (line.partition(b":") for line in block.split(b"\r\n")[:-1])
    return [(name, value.strip()) for name, _, value in pairs]
