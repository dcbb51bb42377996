"""How one process asks another of the same gateway for something that may be long.

A letterbox is a pair of sockets that the supervisor makes and all processes inherit, so it stays
when one of them is replaced. A letter is a single datagram, the question with one end of a fresh
connection in it; the answer comes on that. So there is nothing that a process which dies could
leave half written, and a letter that nobody takes out is all that happens to who asks for nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence

import msgspec

LONGEST_ANSWER = 64 * 1024 * 1024
ANSWER_SECONDS = 5.0
"""How long whoever asked may take to read the answer."""
_PIECE = 256 * 1024
_LONGEST_QUESTION = 128 * 1024

_log = logging.getLogger(__name__)


class Letterbox(msgspec.Struct, frozen=True):
    """Both ends; each process closes those that are not for it."""

    asking: socket.socket
    answering: socket.socket

    @classmethod
    def make(cls) -> Letterbox:
        """A new pair, neither end of which ever blocks."""
        asking, answering = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        asking.setblocking(False)
        answering.setblocking(False)
        return cls(asking, answering)

    async def ask(self, seconds: float, question: bytes) -> bytes:
        """The answer of the other side; ``question`` is not empty. Raises ``TimeoutError`` when
        there is none in time, and ``OSError`` when too many letters are lying there already."""
        ours, theirs = socket.socketpair()
        with ours:
            ours.setblocking(False)
            with theirs:
                socket.send_fds(self.asking, [question], [theirs.fileno()])
            async with asyncio.timeout(seconds):
                return await _read_all(ours)


Answer = Callable[[bytes], bytes | Awaitable[bytes]]
"""The answer to a question; one that has to be waited for takes as long as whoever asked waits."""


class Answering:
    """The answering side in a process: ``answer`` is called with the question of each letter."""

    def __init__(self, box: socket.socket, answer: Answer) -> None:
        self._box = box
        self._answer = answer
        self._writing: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Begins to look for letters."""
        asyncio.get_running_loop().add_reader(self._box.fileno(), self._take_out)

    async def aclose(self) -> None:
        """Looks no more, and leaves answers unfinished."""
        asyncio.get_running_loop().remove_reader(self._box.fileno())
        for task in self._writing:
            task.cancel()
        await asyncio.gather(*self._writing, return_exceptions=True)

    def _take_out(self) -> None:
        with contextlib.suppress(BlockingIOError):
            question, descriptors, _, _ = socket.recv_fds(self._box, _LONGEST_QUESTION, 1)
            for descriptor in descriptors:
                task = asyncio.ensure_future(
                    self._reply(question, socket.socket(fileno=descriptor))
                )
                self._writing.add(task)
                task.add_done_callback(self._writing.discard)

    async def _reply(self, question: bytes, reply: socket.socket) -> None:
        with reply:
            reply.setblocking(False)
            try:
                answer = self._answer(question)
                if not isinstance(answer, bytes):
                    answer = await answer
                async with asyncio.timeout(ANSWER_SECONDS):
                    await asyncio.get_running_loop().sock_sendall(reply, answer)
            except (OSError, TimeoutError):
                pass  # whoever asked does not wait any more
            except Exception:  # noqa: BLE001 - who asked sees that there is no answer
                _log.exception("a question of another process could not be answered")


def keep_only(boxes: Sequence[Letterbox], *kept: socket.socket) -> None:
    """Closes in this process all ends but ``kept``."""
    for box in boxes:
        for end in (box.asking, box.answering):
            if end not in kept:
                end.close()


async def _read_all(connection: socket.socket) -> bytes:
    loop = asyncio.get_running_loop()
    received = bytearray()
    while len(received) <= LONGEST_ANSWER:
        piece = await loop.sock_recv(connection, _PIECE)
        if not piece:
            return bytes(received)
        received += piece
    raise OSError("the answer of another process is longer than any can be")
