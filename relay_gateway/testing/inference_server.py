"""The real inference server with a handler of the test's own, in a thread of its own."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any, Self, cast

import uvicorn

from relay_gateway.http.limits import ServerLimits
from relay_gateway.http.plane import Handler
from relay_gateway.http.server import server_protocol

_STOP_SECONDS = 20.0


def refuse_in_plain_text(status: int, code: str, message: str) -> tuple[bytes, bytes]:
    """Words refusals as ``code: message``."""
    return b"Content-Type: text/plain\r\n", f"{status} {code}: {message}".encode()


async def _no_application(scope: Any, receive: Any, send: Any) -> None:
    """Stands where uvicorn wants an ASGI application; the protocol class never calls it."""


class RecordedProtocol(asyncio.Protocol):
    """Stands between a transport and the protocol that ``make`` makes, and writes down what comes.

    ``record`` gets one item per connection.
    """

    def __init__(
        self, make: Callable[..., asyncio.Protocol], record: list[bytearray], **given: Any
    ) -> None:
        self._inner = make(**given)
        self._received = bytearray()
        record.append(self._received)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Passes it on."""
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Writes it down and passes it on."""
        self._received += data
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        """Passes it on."""
        return self._inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Passes it on."""
        self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        """Passes it on."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Passes it on."""
        self._inner.resume_writing()


class InferenceServer:
    """Serves ``handler`` on a loopback port through uvicorn and uvloop; a context manager.

    Connections succeed as soon as it is made, because the socket is listening by then. ``record``
    gets one item per connection, every byte that it brought.
    """

    def __init__(
        self,
        handler: Handler,
        limits: ServerLimits | None = None,
        *,
        drain_seconds: int = 10,
        record: list[bytearray] | None = None,
    ) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        protocol = server_protocol(handler, refuse_in_plain_text, limits)
        if record is not None:
            protocol = partial(RecordedProtocol, protocol, record)
        self._server = uvicorn.Server(
            uvicorn.Config(
                _no_application,
                http=cast("Any", protocol),
                ws="none",
                lifespan="off",
                loop="uvloop",
                log_config=None,
                timeout_graceful_shutdown=drain_seconds,
            )
        )
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def begin_to_stop(self) -> None:
        """Asks for a graceful shutdown and returns at once."""
        self._server.should_exit = True

    def stop(self) -> None:
        """Shuts down gracefully and waits for it."""
        self.begin_to_stop()
        self._thread.join(_STOP_SECONDS)
        if self._thread.is_alive():
            raise TimeoutError(f"the server still runs {_STOP_SECONDS:g} seconds after its stop")
        self._socket.close()

    @property
    def open_connections(self) -> int:
        """How many connections the server holds at the moment."""
        return len(self._server.server_state.connections)

    @property
    def running_handlers(self) -> int:
        """How many handler tasks have not ended at the moment."""
        return len(self._server.server_state.tasks)
