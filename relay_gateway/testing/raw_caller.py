"""A caller in the test's own event loop that sees an answer as it is on the wire."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from types import TracebackType
from typing import Self

_BUFFER_BYTES = 1024 * 1024
_LENGTH = re.compile(rb"\r\nContent-Length: (\d+)\r\n", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """Status, head and content of an answer; ``complete`` is false where the stream ended inside
    it."""

    status: int
    head: bytes
    body: bytes
    complete: bool


class RawCaller:
    """One connection to a loopback port; an async context manager. Nothing takes longer than
    ``seconds``, or ``TimeoutError`` is raised."""

    def __init__(self, port: int, *, seconds: float = 10.0) -> None:
        self._port = port
        self._seconds = seconds
        self.reader: asyncio.StreamReader
        self.writer: asyncio.StreamWriter

    async def __aenter__(self) -> Self:
        self.reader, self.writer = await asyncio.open_connection(
            "127.0.0.1", self._port, limit=_BUFFER_BYTES
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.writer.close()

    def send(self, data: bytes | memoryview) -> Self:
        """Sends ``data`` without waiting."""
        self.writer.write(data)
        return self

    async def is_closed(self) -> bool:
        """Whether the next thing to read is the end of the stream (or a reset)."""
        async with asyncio.timeout(self._seconds):
            try:
                return await self.reader.read(1) == b""
            except ConnectionResetError:
                return True

    async def read_answer(self) -> RawAnswer:
        """The next answer; ``EOFError`` where the stream ends before its head does."""
        async with asyncio.timeout(self._seconds):
            try:
                head = await self.reader.readuntil(b"\r\n\r\n")
            except (asyncio.IncompleteReadError, ConnectionResetError) as error:
                raise EOFError("the connection was closed without an answer") from error
            if head[9:12] in {b"204", b"304"}:
                return RawAnswer(int(head[9:12]), head, b"", complete=True)
            length = _LENGTH.search(head)
            pieces: list[bytes] = []
            try:
                if length is not None:
                    pieces.append(await self.reader.readexactly(int(length[1])))
                else:
                    await self._read_chunks(pieces)
            except asyncio.IncompleteReadError as error:
                return RawAnswer(int(head[9:12]), head, b"".join((*pieces, error.partial)), False)
            except ConnectionResetError:
                return RawAnswer(int(head[9:12]), head, b"".join(pieces), complete=False)
            return RawAnswer(int(head[9:12]), head, b"".join(pieces), complete=True)

    async def ask(self, data: bytes) -> RawAnswer:
        """Sends ``data`` and reads its answer."""
        return await self.send(data).read_answer()

    async def _read_chunks(self, pieces: list[bytes]) -> None:
        while size := int(await self.reader.readuntil(b"\r\n"), 16):
            pieces.append(await self.reader.readexactly(size))
            await self.reader.readexactly(2)
        await self.reader.readexactly(2)
