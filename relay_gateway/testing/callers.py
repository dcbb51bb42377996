"""A caller of the inference plane in memory: what the pipeline sees instead of a socket."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from relay_gateway.errors import RequestRefusedError
from relay_gateway.http.message import Header, Headers


class FakeCaller:
    """One request and the record of its answer, with the surface of a server exchange.

    ``gone`` is the exception that :meth:`read_body` raises when the caller leaves while its body is
    awaited. The body is there from the start unless ``body`` is ``None``; then
    :meth:`send_body` brings it. Misuse (two answers, writing after the end)
    raises ``AssertionError``.
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
        received_at: float = 0.0,
        gone: Exception | None = None,
    ) -> None:
        self.method = method
        self.path = path
        self.query = query
        self.headers = Headers(headers)
        self.http_version = http_version
        self.client_address = client_address
        self.received_at = received_at
        self.content_length = None if body is None else len(body)
        self.started = False
        self.finished = False
        self.disconnected = False
        self.bytes_out = 0
        self.on_disconnect: Callable[[], None] | None = None
        self.on_flow: Callable[[bool], None] | None = None
        self.status = 0
        self.header_block = b""
        self.length: int | None = None
        """What :meth:`start` announced; ``None`` for a chunked answer."""
        self.chunks: list[bytes] = []
        self.aborted = False
        self._request_body = body
        self._gone = gone or ConnectionResetError("the caller went away")
        self._changed = asyncio.Event()

    # What the pipeline calls.

    async def read_body(self, limit: int) -> bytes:
        """The request body. Raises a 413 refusal above ``limit`` bytes, ``gone`` without it."""
        while self._request_body is None and not self.disconnected:
            await self._next_change()
        if self._request_body is None:
            raise self._gone
        if len(self._request_body) > limit:
            message = f"the body has {len(self._request_body)} bytes, the limit is {limit}"
            raise RequestRefusedError(413, "request_too_large", message)
        return self._request_body

    def respond(self, status: int, headers: bytes, body: bytes) -> None:
        """A whole answer at once."""
        self.start(status, headers, len(body))
        if body:
            self.write(body)
        self.finish()

    def start(self, status: int, headers: bytes, length: int | None) -> None:
        """Status and header block of an answer whose body follows."""
        _require(not self.started, "start() was called twice")
        _require(not headers or headers.endswith(b"\r\n"), "a header line lacks its CRLF")
        self.started = True
        self.status = status
        self.header_block = headers
        self.length = length
        self._notify()

    def write(self, data: bytes) -> None:
        """A piece of the body; dropped without a word when the caller has gone."""
        _require(self.started, "write() before start()")
        _require(not self.finished, "write() after finish()")
        _require(not self.aborted, "write() after abort()")
        if self.disconnected:
            return
        self.chunks.append(bytes(data))
        self.bytes_out += len(data)
        self._notify()

    def finish(self) -> None:
        """The regular end of the answer."""
        _require(self.started, "finish() before start()")
        _require(not self.finished and not self.aborted, "the answer had ended already")
        if self.length is not None and not self.disconnected:
            message = f"{self.bytes_out} bytes were written, {self.length} were announced"
            _require(self.bytes_out == self.length or self.method == "HEAD", message)
        self.finished = True
        self._notify()

    def abort(self) -> None:
        """The irregular end: the caller sees a broken connection."""
        _require(not self.finished, "abort() after finish()")
        self.aborted = True
        self._notify()

    # What the test does.

    @property
    def body(self) -> bytes:
        """All that was written so far."""
        return b"".join(self.chunks)

    @property
    def ended(self) -> bool:
        """Whether the answer ended, in one way or the other."""
        return self.finished or self.aborted

    @property
    def answer_headers(self) -> Headers:
        """The header block of the answer, parsed."""
        lines = self.header_block.split(b"\r\n")[:-1]
        pairs = (line.partition(b":") for line in lines)
        return Headers([(name, value.strip()) for name, _, value in pairs])

    def send_body(self, body: bytes) -> None:
        """Brings the body of a request made with ``body=None``."""
        self._request_body = body
        self._notify()

    def disconnect(self) -> None:
        """The caller goes away; ``on_disconnect`` is called once, and not after the end."""
        if self.disconnected:
            return
        self.disconnected = True
        self._notify()
        if self.on_disconnect is not None and not self.ended:
            self.on_disconnect()

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
        await self.until(lambda: self.ended, seconds=seconds)

    def __repr__(self) -> str:
        state = "finished" if self.finished else "aborted" if self.aborted else "open"
        return (
            f"<FakeCaller {self.method} {self.path}: status {self.status or '-'}, "
            f"{len(self.chunks)} chunks, {self.bytes_out} bytes, {state}>"
        )

    def _flow(self, *, writable: bool) -> None:
        if self.on_flow is not None and not self.ended:
            self.on_flow(writable)

    def _notify(self) -> None:
        self._changed.set()

    async def _next_change(self) -> None:
        self._changed.clear()
        await self._changed.wait()


def _require(condition: bool, message: str) -> None:  # noqa: FBT001 - as assert has it
    # Not `assert`: a fake must complain under `python -O` as well.
    if not condition:
        raise AssertionError(message)
