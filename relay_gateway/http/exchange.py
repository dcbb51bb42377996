"""One request and its answer, as the code that handles requests sees them.

States: *open* until :meth:`ServerExchange.respond` or :meth:`~ServerExchange.start`, *started*
until :meth:`~ServerExchange.finish` or :meth:`~ServerExchange.abort`, then *finished*.
``disconnected`` can become true in the first two; from then on writing does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

from relay_gateway.http.incoming_head import RequestHead
from relay_gateway.http.request_body import BodyReader, CallerGoneError, RequestBody
from relay_gateway.http.response_head import has_body, status_line

__all__ = ["CallerConnection", "CallerGoneError", "ServerExchange"]

_JOINED_BYTES: Final = 32 * 1024
_PROBE_HEAD: Final = b"H"
_PROBE_CHUNK: Final = b"0"


class CallerConnection(Protocol):
    """What an exchange needs of the connection that carries it."""

    client_address: str
    write_paused: bool

    def send(self, data: bytes) -> None:
        """Hands bytes to the transport."""

    def send_pieces(self, *pieces: bytes) -> None:
        """Hands pieces to the transport, all in one system call."""

    def send_soon(self, flush: Callable[[], None]) -> None:
        """Has ``flush`` called once the running callback and those already due are done."""

    def run(self, exchange: ServerExchange, work: Coroutine[Any, Any, None]) -> None:
        """Runs ``work`` in a task that belongs to ``exchange``."""

    def expect_body(self, exchange: ServerExchange) -> None:
        """Somebody waits for the rest of the body: read on, and ask the caller for it."""

    def stream_body(self, exchange: ServerExchange) -> None:
        """Hands the body to its reader, what has come of it and what comes."""

    def pause_body(self, exchange: ServerExchange) -> None:
        """Reads no more of the body until it is expected again."""

    def begin_answer(self, *, delimited: bool) -> bytes:
        """The ``Date`` line, and ``Connection`` where this answer is the last or HTTP/1.0 goes on.

        An answer that is not ``delimited`` ends with the connection.
        """

    def end_answer(self) -> None:
        """The answer is complete: take the next request or close."""

    def cut_answer(self, *, reset: bool) -> None:
        """The answer ends here, incomplete; ``reset`` where a plain close would look complete."""


class ServerExchange:
    """A request whose head has arrived, and the way to answer it.

    ``path`` is raw and canonical. ``bytes_out`` counts body bytes. ``memory`` outlives the request:
    the connection's next one has the same if its head differs in nothing but the length.

    A ``headers`` argument is an encoded block, each line with its CRLF. It must not hold ``Date``,
    ``Connection``, ``Content-Length`` or ``Transfer-Encoding``: those are written here.
    """

    __slots__ = (
        "_body",
        "_chunked",
        "_connection",
        "_head",
        "_left",
        "_on_disconnect",
        "_on_flow",
        "_probed",
        "_silent",
        "bytes_out",
        "client_address",
        "content_length",
        "disconnected",
        "finished",
        "headers",
        "http_version",
        "memory",
        "method",
        "path",
        "query",
        "started",
    )

    def __init__(self, connection: CallerConnection, head: RequestHead, body: RequestBody) -> None:
        self._connection = connection
        self._body = body
        self.memory = head.memory
        self.method = head.method
        self.path = head.path
        self.query = head.query
        self.headers = head.headers
        self.http_version = head.version
        self.content_length = head.length
        self.client_address = connection.client_address
        self.started = self.finished = self.disconnected = False
        self.bytes_out = 0
        self._chunked = self._silent = self._probed = False
        self._head = b""
        self._left: int | None = None
        self._on_disconnect: Callable[[], None] | None = None
        self._on_flow: Callable[[bool], None] | None = None

    @property
    def on_disconnect(self) -> Callable[[], None] | None:
        """Called once when the caller is gone before the answer is finished, never after it.

        Set on an exchange whose caller has already gone, it is called at once. A pending
        :meth:`read_body` raises instead. Where it is not set, the handler's task is cancelled.
        """
        return self._on_disconnect

    @on_disconnect.setter
    def on_disconnect(self, callback: Callable[[], None] | None) -> None:
        self._on_disconnect = callback
        if callback is not None and self.disconnected and not self.finished:
            callback()

    @property
    def on_flow(self) -> Callable[[bool], None] | None:
        """Called with false when too much waits for a slow caller, with true to go on writing.

        Set while writing is paused, it is called at once.
        """
        return self._on_flow

    @on_flow.setter
    def on_flow(self, callback: Callable[[bool], None] | None) -> None:
        self._on_flow = callback
        if callback is not None and self._connection.write_paused:
            callback(False)

    async def read_body(self, limit: int) -> bytes:
        """The whole request body; does not suspend when it is already here.

        Raises :class:`RequestRefusedError` 413 as soon as the announced or counted length exceeds
        ``limit`` bytes, 400 for broken chunks, 408 for a body that comes too slowly, and
        :class:`CallerGoneError` when the caller leaves before its end.
        """
        body = self._body
        body.check(limit)
        if not body.complete:
            self._connection.expect_body(self)
            await body.wait(limit)
            body.check(limit)
        return body.whole()

    def when_body(self, limit: int, then: Callable[[], None]) -> None:
        """Has ``then`` called, once, when :meth:`take_body` can be: the body is here, or will not
        come. Raises as :meth:`read_body`."""
        body = self._body
        body.check(limit)
        body.when_settled(limit, then)
        self._connection.expect_body(self)

    @property
    def body_complete(self) -> bool:
        """Whether :meth:`read_body` would not suspend."""
        return self._body.complete

    def take_body(self, limit: int) -> bytes:
        """What :meth:`read_body` returns or raises, where the body has come to its end."""
        body = self._body
        body.check(limit)
        return body.whole()

    async def read_beginning(self, limit: int) -> bytes:
        """What has come of the body, as soon as it is whole or longer than ``limit`` bytes.

        It stays in place for :meth:`take_body` or :meth:`stream_body`. Raises as :meth:`read_body`,
        but for the 413.
        """
        body = self._body
        if not body.complete and body.received <= limit:
            self._connection.expect_body(self)
            await body.wait(limit)
        return body.so_far()

    def stream_body(self, reader: BodyReader) -> None:
        """Hands the body to ``reader``, from its first byte on and as it comes."""
        self._body.reader = reader
        self._connection.stream_body(self)

    def pause_body(self) -> None:
        """Lets a body that is being handed over wait: its reader has no room."""
        self._connection.pause_body(self)

    def resume_body(self) -> None:
        """Goes on handing over the body."""
        if self._body.reader is not None:
            self._connection.expect_body(self)

    def drop_body(self) -> None:
        """Hands over no more of the body: nobody wants the rest."""
        if self._body.reader is not None:
            self._body.reader = None
            self._connection.pause_body(self)

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Goes on in a task, which is cancelled when the caller leaves and nobody else is told."""
        self._connection.run(self, work)

    def respond(self, status: int, headers: bytes, body: bytes) -> None:
        """Answers at once and completely; ``Content-Length`` is added."""
        if not self._begin():
            return
        self.finished = True
        connection = self._connection
        common = connection.begin_answer(delimited=True)
        size = len(body)
        if has_body(status):
            framing = b"Content-Length: %d\r\n\r\n" % size
            if self.method == "HEAD":
                body, size = b"", 0
        else:
            framing, body, size = b"\r\n", b"", 0
        self.bytes_out = size
        if size <= _JOINED_BYTES:
            connection.send(self._rest_of_head(status_line(status), common, headers, framing, body))
        else:
            head = self._rest_of_head(status_line(status), common, headers, framing)
            connection.send_pieces(head, body)
        connection.end_answer()

    def start(
        self, status: int, headers: bytes, length: int | None, *, dated: bool = False
    ) -> None:
        """Sends the head of an answer of ``length`` bytes, or of a length not known yet (``None``).

        The latter is sent chunked, or to an HTTP/1.0 caller until the connection closes. A
        ``dated`` answer is somebody else's and has its own ``Date`` in ``headers``.
        """
        if not self._begin():
            return
        framing = self._choose_framing(status, length)
        delimited = self._chunked or self._silent or length is not None
        common = self._connection.begin_answer(delimited=delimited)
        if dated:
            common = common.partition(b"\r\n")[2]
        self._head = self._rest_of_head(status_line(status), common, headers, framing)
        # The first piece of the body is usually at hand: one system call for both.
        self._connection.send_soon(self._flush_head)

    def _choose_framing(self, status: int, length: int | None) -> bytes:
        bodiless = not has_body(status)
        self._silent = bodiless or self.method == "HEAD"
        if bodiless:
            return b"\r\n"
        if length is not None:
            self._left = length
            return b"Content-Length: %d\r\n\r\n" % length
        self._chunked = self.http_version == "1.1"
        return b"Transfer-Encoding: chunked\r\n\r\n" if self._chunked else b"\r\n"

    def write(self, data: bytes) -> None:
        """Sends a piece of the body; one beyond the announced length cuts the answer instead."""
        if not self.started:
            raise RuntimeError("a body was written before the answer was started")
        if not data or self.finished or self.disconnected or self._silent:
            return
        size = len(data)
        if self._left is not None:
            if size > self._left:
                self.abort()
                return
            self._left -= size
        self.bytes_out += size
        if size > _JOINED_BYTES:
            head, self._head = self._head, b""
            self._write_pieces(head, data)
            return
        if self._chunked:
            data = b"%x\r\n%b\r\n" % (size, data)
        if self._head:
            data, self._head = self._head + data, b""
        self._connection.send(data)

    def _write_pieces(self, head: bytes, data: bytes) -> None:
        if self._chunked:
            self._connection.send_pieces(b"%b%x\r\n" % (head, len(data)), data, b"\r\n")
        else:
            self._connection.send_pieces(head, data)

    def finish(self) -> None:
        """Ends the answer cleanly; one that is shorter than announced is cut instead."""
        if not self.started:
            raise RuntimeError("an answer was finished that had not been started")
        if self.finished or self.disconnected:
            self.finished = True
            return
        if self._left and not self._silent:
            self.abort()
            return
        self.finished = True
        head, self._head = self._head, b""
        end = b"0\r\n\r\n" if self._chunked and not self._silent else b""
        if head or end:
            self._connection.send(head + end)
        self._connection.end_answer()

    def abort(self) -> None:
        """Ends the answer visibly incomplete: what was written is sent, then the stream ends."""
        if self.finished:
            return
        if not self.disconnected:
            self._flush_head()
        self.finished = True
        if not self.disconnected:
            # Without chunks and length, a caller takes an orderly close for the end of the body.
            delimited = self._chunked or self._left is not None or self._silent
            self._connection.cut_answer(reset=self.started and not delimited)

    def _begin(self) -> bool:
        """Marks the answer as started; whether there is still somebody to send it to."""
        if self.started:
            raise RuntimeError("an answer was started twice")
        self.started = True
        return not (self.finished or self.disconnected)

    def _rest_of_head(self, *parts: bytes) -> bytes:
        head = b"".join(parts)
        return head[len(_PROBE_HEAD) :] if self._probed else head

    def _flush_head(self) -> None:
        if self._head and not self.finished and not self.disconnected:
            head, self._head = self._head, b""
            self._connection.send(head)

    # What the connection calls.

    def probe(self) -> bytes:
        """Bytes that may be sent ahead without changing the answer's meaning, maybe none.

        A caller that closed answers them with a reset, one that only closed its sending side takes
        them for what they are: the first letter of the status line, or a leading zero of the next
        chunk's size.
        """
        if not self.started:
            self._probed = True
            return _PROBE_HEAD
        self._flush_head()
        return _PROBE_CHUNK if self._chunked and not self._silent else b""

    def flow(self, *, writable: bool) -> None:
        """Passes on that the transport is full, or has room again."""
        if self._on_flow is not None and not self.finished:
            self._on_flow(writable)

    def caller_left(self) -> bool:
        """Marks the caller as gone; whether the handler has been told by a callback or an error."""
        if self.finished or self.disconnected:
            return True
        self.disconnected = True
        told = self._body.awaited
        self._body.fail(CallerGoneError("the caller closed its connection"))
        if not told and self._on_disconnect is not None:
            told = True
            self._on_disconnect()
        return told
