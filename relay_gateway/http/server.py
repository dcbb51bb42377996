"""The inference plane's HTTP/1.1 server: our protocol class, for uvicorn's ``http=`` setting.

uvicorn accepts connections, owns the sockets, the signals and the order of shutting down; from the
first byte of a connection on, everything is here. There is no ASGI: a request goes from the parser
to the handler, and the handler writes to the transport.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from relay_gateway.http.connection import ServerConnection
from relay_gateway.http.limits import ServerLimits
from relay_gateway.http.plane import Handler, Plane, Refuse, ServerState

__all__ = ["Handler", "Refuse", "ServerLimits", "server_protocol"]


def server_protocol(
    handler: Handler, refuse: Refuse, limits: ServerLimits | None = None
) -> Callable[..., asyncio.Protocol]:
    """What makes the protocol object of each connection, as ``uvicorn.Config(http=...)`` takes it.

    ``handler`` runs once per request, in its own task, as soon as the head is complete; it may
    return once it has begun an answer that callbacks of its own will end. ``refuse`` gives the
    header block and body of an answer where no handler can: broken requests, and handlers that
    failed before they began to answer. Each block line ends with CRLF.
    """
    plane = Plane(handler, refuse, limits or ServerLimits())

    def protocol(
        config: object,  # noqa: ARG001 - passed by keyword, and without meaning here
        server_state: ServerState,
        app_state: object,  # noqa: ARG001 - the same
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> ServerConnection:
        return ServerConnection(plane, server_state, _loop or asyncio.get_running_loop())

    return protocol
