"""The real inference server with a handler of the test's own, in a thread of its own."""

from __future__ import annotations

import socket
import threading
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


class InferenceServer:
    """Serves ``handler`` on a loopback port through uvicorn and uvloop; a context manager.

    Connections succeed as soon as it is made, because the socket is listening by then.
    """

    def __init__(
        self, handler: Handler, limits: ServerLimits | None = None, *, drain_seconds: int = 10
    ) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        protocol = server_protocol(handler, refuse_in_plain_text, limits)
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
