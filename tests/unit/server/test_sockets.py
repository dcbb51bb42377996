"""What accepted connections inherit from the socket that listens."""

from __future__ import annotations

import socket

from relay_gateway.server.sockets import UNSENT_BYTES, bound_sockets
from relay_gateway.settings import Settings


def test_f57_the_kernel_holds_little_for_a_caller_that_does_not_read() -> None:
    with bound_sockets(Settings(port=0, control_port=0)) as (inference, control):
        assert control is not None
        for bound in (*inference, control):
            with socket.create_connection(bound.getsockname()) as caller:
                bound.setblocking(True)
                accepted, _ = bound.accept()
                with accepted:
                    assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT) == (
                        UNSENT_BYTES
                    )
                    accepted.setblocking(False)
                    taken = _fill(accepted)
                assert UNSENT_BYTES <= taken < 8 * UNSENT_BYTES
                caller.close()


def _fill(connection: socket.socket) -> int:
    """How many bytes the kernel takes of a sender whose peer does not read."""
    taken, piece = 0, bytes(16 * 1024)
    while True:
        try:
            taken += connection.send(piece)
        except BlockingIOError:
            return taken
