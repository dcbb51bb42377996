"""Listening sockets: bound before anything else, so that a port in use is said at once."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from relay_gateway.errors import SettingsError
from relay_gateway.settings import Settings

BACKLOG = 2048
UNSENT_BYTES = 128 * 1024
"""How much the kernel takes for a caller beyond what is under way. Without a bound it is 4 MiB
for each one that does not read, and a thousand of them use up what the kernel has for all
connections of the machine."""
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - what they are reached as


@contextmanager
def bound_sockets(
    settings: Settings,
) -> Iterator[tuple[list[socket.socket], socket.socket | None]]:
    """The sockets of the inference plane, one for each worker, and that of the control plane.

    The latter is ``None`` where that plane is off. Raises :class:`SettingsError` for an address
    that cannot be had. All of them are closed at the end.
    """
    with ExitStack() as stack:
        inference = _bind(settings.host, settings.port, settings.workers)
        for bound in inference:
            stack.enter_context(bound)
        control = None
        if settings.control_port is not None:
            (control,) = _bind(settings.control_host, settings.control_port, setting="control_port")
            stack.enter_context(control)
        yield inference, control


def url_of(bound: socket.socket) -> str:
    """Where a caller on this machine reaches the socket."""
    host, port = bound.getsockname()[:2]
    return _url(host, port)


def local_url(host: str, port: int) -> str:
    """Where this machine reaches ``host``, which may be every address."""
    return _url(_LOOPBACK.get(host, host), port)


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _bind(host: str, port: int, count: int = 1, *, setting: str = "port") -> list[socket.socket]:
    first = _listen(host, port, setting, shared=False)
    if count == 1:
        return [first]
    # That was to see that nobody else listens there: a shared port can be shared with anybody.
    port = first.getsockname()[1]
    first.close()
    return [_listen(host, port, setting, shared=True) for _ in range(count)]


def _listen(host: str, port: int, setting: str, *, shared: bool) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        bound = socket.create_server(
            (host, port), family=family, backlog=BACKLOG, reuse_port=shared
        )
    except OSError as error:
        raise SettingsError(
            f"{setting}: cannot listen on {host} port {port}: {os.strerror(error.errno or 0)}; "
            "stop what listens there or choose another port"
        ) from error
    bound.setblocking(False)
    # Accepted connections inherit it.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)
    return bound
