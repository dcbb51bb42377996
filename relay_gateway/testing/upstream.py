"""A scripted upstream: a raw TCP server that answers as told and remembers every byte it saw."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Self

from relay_gateway.testing.inbox import Inbox, PeerGoneError
from relay_gateway.testing.ledger import (
    Cancellation,
    MalformedRequestError,
    SeenConnection,
    SeenRequest,
    body_framing,
    parse_head,
)
from relay_gateway.testing.performer import Performer
from relay_gateway.testing.script import Close, Script, json_response

Answer = Callable[[SeenRequest], Script]
Greeting = Callable[[SeenConnection], Script]


class ScriptedUpstream:
    """An HTTP/1.x server on a loopback port that does what scripts say.

    Each request takes the next script of the queue (:meth:`enqueue`); when the queue is empty,
    ``answer`` makes one from the request; without ``answer`` the request gets a 500 that says so.
    ``greeting`` runs before the first byte of a connection is read. With ``early`` set, scripts
    begin when the head of a request is there, before its body. Use as an async context manager,
    in the event loop of the test.
    """

    def __init__(
        self,
        answer: Answer | None = None,
        *,
        greeting: Greeting | None = None,
        early: bool = False,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.answer = answer
        self.greeting = greeting
        self.early = early
        self.ledger: list[SeenRequest] = []
        """Every request that was complete, in order."""
        self.connections: list[SeenConnection] = []
        """Every connection, in order of arrival."""
        self.cancellations: list[Cancellation] = []
        """Every peer that left before its script had ended."""
        self.malformed: list[str] = []
        """What was wrong with what is no request; empty unless the code under test is broken."""
        self.errors: list[str] = []
        """What ``answer``, ``greeting`` or a script raised."""
        self.port = 0
        self._tls = tls
        self._queue: deque[Script] = deque()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    @property
    def url(self) -> str:
        """Scheme, host and port, without a path."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    @property
    def received(self) -> bytes:
        """Every byte of every connection, for a canary sweep."""
        return b"\n".join(bytes(connection.received) for connection in self.connections)

    @property
    def open_connections(self) -> int:
        """Connections that neither side has closed."""
        return sum(
            connection.closed_at is None and connection.peer_closed_at is None
            for connection in self.connections
        )

    def enqueue(self, *scripts: Script) -> None:
        """Scripts for the next requests, one each, whichever connection they come on."""
        self._queue.extend(scripts)

    async def start(self) -> None:
        """Listens, on the port it had before if it was started already."""
        self._server = await asyncio.start_server(
            self._accepted, "127.0.0.1", self.port, ssl=self._tls, limit=1 << 20
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def aclose(self) -> None:
        """Stops listening and drops every connection; :meth:`start` brings it back."""
        if self._server is None:
            return
        self._server.close()
        self._server = None
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def until(self, condition: Callable[[], bool], *, seconds: float = 5.0) -> None:
        """Waits until something happened here that makes ``condition`` true.

        Raises ``AssertionError`` with what was seen instead when that takes too long.
        """
        try:
            async with asyncio.timeout(seconds):
                while not condition():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError as error:
            raise AssertionError(f"not within {seconds} s; so far {self!r}") from error

    async def wait_for_requests(self, number: int = 1, *, seconds: float = 5.0) -> None:
        """Waits until ``number`` requests were complete."""
        await self.until(lambda: len(self.ledger) >= number, seconds=seconds)

    async def wait_for_cancellation(self, *, seconds: float = 5.0) -> Cancellation:
        """The first peer that left early; waits for it."""
        await self.until(lambda: bool(self.cancellations), seconds=seconds)
        return self.cancellations[0]

    def __repr__(self) -> str:
        return (
            f"<ScriptedUpstream {self.url}: {len(self.connections)} connections "
            f"({self.open_connections} open), {len(self.ledger)} requests, "
            f"{len(self.cancellations)} cancellations, {len(self.malformed)} malformed>"
        )

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        connection = SeenConnection(len(self.connections) + 1, loop.time())
        self.connections.append(connection)
        inbox = Inbox(reader, connection)
        performer = Performer(writer, connection)
        pump = loop.create_task(self._pump(inbox))
        try:
            await self._converse(connection, inbox, performer)
        except PeerGoneError:
            pass
        except MalformedRequestError as error:
            self.malformed.append(str(error))
            await _refuse(performer, 400, str(error))
        except Exception as error:  # noqa: BLE001 - whatever a script of a test raises
            self.errors.append(f"{type(error).__name__}: {error}")
            await _refuse(performer, 500, self.errors[-1])
        finally:
            pump.cancel()
            connection.closed_at = loop.time()
            writer.close()
            self._changed.set()

    async def _pump(self, inbox: Inbox) -> None:
        self._changed.set()
        await inbox.pump()
        self._changed.set()

    async def _converse(
        self, connection: SeenConnection, inbox: Inbox, performer: Performer
    ) -> None:
        if self.greeting is not None:
            await performer.perform(self.greeting(connection))
        while not performer.closed:
            head = await inbox.take_until(b"\r\n\r\n")
            connection.requests += 1
            if self.early:
                request = self._seen(connection, head, b"", b"")
                await self._play(request, inbox, performer)
                await _read_body(head, inbox)
            else:
                body, raw = await _read_body(head, inbox)
                request = self._seen(connection, head, body, raw)
                await self._play(request, inbox, performer)

    def _seen(
        self, connection: SeenConnection, head: bytes, body: bytes, raw_body: bytes
    ) -> SeenRequest:
        request = SeenRequest(
            *parse_head(head),
            body=body,
            raw=head + raw_body,
            connection_id=connection.id,
            ordinal=connection.requests,
            at=asyncio.get_running_loop().time(),
        )
        self.ledger.append(request)
        self._changed.set()
        return request

    async def _play(self, request: SeenRequest, inbox: Inbox, performer: Performer) -> None:
        script = self._script(request)
        playing = asyncio.ensure_future(performer.perform(script))
        gone = asyncio.ensure_future(inbox.ended.wait())
        try:
            await asyncio.wait({playing, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not playing.done() or _failed(playing):
                self._cancelled(request)
                raise PeerGoneError
            playing.result()
        finally:
            await _end(playing, gone)

    def _script(self, request: SeenRequest) -> Script:
        if self._queue:
            return self._queue.popleft()
        if self.answer is not None:
            return self.answer(request)
        message = f"no answer is scripted for {request.method} {request.target}"
        return json_response(500, {"error": {"message": message}})

    def _cancelled(self, request: SeenRequest) -> None:
        connection = self.connections[request.connection_id - 1]
        at = connection.peer_closed_at or asyncio.get_running_loop().time()
        self.cancellations.append(Cancellation(connection.id, request, at))
        self._changed.set()


async def _read_body(head: bytes, inbox: Inbox) -> tuple[bytes, bytes]:
    """The body without and with its framing."""
    length = body_framing(parse_head(head)[3])
    if length is not None:
        body = await inbox.take(length)
        return body, body
    body, raw = b"", b""
    while True:
        line = await inbox.take_until(b"\r\n")
        try:
            size = int(line.split(b";")[0], 16)
        except ValueError as error:
            raise MalformedRequestError(f"not a chunk size: {line[:50]!r}") from error
        data = await inbox.take(size + 2) if size else await _trailers(inbox)
        if not data.endswith(b"\r\n"):
            raise MalformedRequestError("a chunk is longer than its size says")
        raw += line + data
        if not size:
            return body, raw
        body += data[:-2]


async def _trailers(inbox: Inbox) -> bytes:
    lines = b""
    while (line := await inbox.take_until(b"\r\n")) != b"\r\n":
        lines += line
    return lines + b"\r\n"


async def _refuse(performer: Performer, status: int, message: str) -> None:
    with suppress(OSError):
        await performer.perform([*json_response(status, {"error": {"message": message}}), Close()])


def _failed(playing: asyncio.Future[None]) -> bool:
    return isinstance(playing.exception(), OSError)


async def _end(*futures: asyncio.Future[Any]) -> None:
    for future in futures:
        future.cancel()
    await asyncio.gather(*futures, return_exceptions=True)


def answers(scripts: Iterable[tuple[str, Script]], otherwise: Script | None = None) -> Answer:
    """An ``answer`` that picks a script by the path of the request (its target before ``?``)."""
    by_path = dict(scripts)

    def answer(request: SeenRequest) -> Script:
        path = request.target.partition("?")[0]
        script = by_path.get(path, otherwise)
        if script is None:
            return json_response(404, {"error": {"message": f"no script for {path}"}})
        return script

    return answer
