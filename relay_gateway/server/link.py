"""The line between the supervisor and one child: orders one way, readiness or a failure the other.

Either side sees by its end that the other process is gone, however it went.
"""

from __future__ import annotations

import contextlib
import socket
from enum import IntEnum

_READY = b"+"
_FAILED = b"-"
_LONGEST = 8192


class Order(IntEnum):
    """What a child can be told."""

    UNREADY = 1
    """Answer that traffic should go elsewhere, and go on."""
    DRAIN = 2
    """End in order."""
    QUIT = 3
    """End now."""
    ADOPT = 4
    """Accept also from the socket of this slot, whose worker is not there."""
    RELEASE = 5
    """Leave it to its worker again."""
    RELOAD = 6
    """Configure plugins as ``relay.toml`` says now."""


class ChildLine:
    """The supervisor's end."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._connection = connection
        self.ready = False
        self.failure = ""
        """Why the child could not start, in its own words."""

    def fileno(self) -> int:
        """The descriptor, to wait for word from the child."""
        return self._connection.fileno()

    def send(self, order: Order, slot: int = 0) -> None:
        """Gives an order; one that is gone does not hear it."""
        with contextlib.suppress(OSError):
            self._connection.send(bytes((order, slot)))

    def receive(self) -> bool:
        """Takes in what the child said; ``False`` when it will say nothing more."""
        try:
            said = self._connection.recv(_LONGEST)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if said.startswith(_READY):
            self.ready = True
        elif said.startswith(_FAILED):
            self.failure = said[len(_FAILED) :].decode("utf-8", "replace")
        return bool(said)

    def close(self) -> None:
        """Lets go of this end."""
        self._connection.close()


class SupervisorLine:
    """The child's end."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._connection = connection

    def fileno(self) -> int:
        """The descriptor, to wait for orders."""
        return self._connection.fileno()

    def ready(self) -> None:
        """Says that this process serves."""
        with contextlib.suppress(OSError):
            self._connection.send(_READY)

    def failed(self, message: str) -> None:
        """Says why this process does not serve."""
        with contextlib.suppress(OSError):
            self._connection.send(_FAILED + message.encode()[: _LONGEST - 1])

    def orders(self) -> list[tuple[Order, int]] | None:
        """The orders that have come, each with its slot; ``None`` when the supervisor is gone."""
        try:
            received = self._connection.recv(_LONGEST)
        except BlockingIOError:
            return []
        except OSError:
            return None
        if not received:
            return None
        # Orders are sent whole, and a stream of these sockets keeps them so.
        pairs = zip(received[::2], received[1::2], strict=True)
        return [(Order(number), slot) for number, slot in pairs]
