"""A small TCP proxy that breaks connections on demand, for the upstream or the database side."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Self

from relay_gateway.testing.performer import reset

READ_SIZE = 65536


@dataclass(frozen=True, slots=True)
class Fault:
    """What is done to the bytes of one direction.

    ``latency`` delays each piece (seconds); ``slice_bytes`` divides it; ``reset_after`` sends RST
    to both sides once so many bytes of a connection went through, ``half_close_after`` ends this
    direction by FIN and leaves the other open; ``blackhole`` swallows everything silently and
    keeps the connection open, as a cut cable does.
    """

    latency: float = 0.0
    slice_bytes: int = 0
    reset_after: int | None = None
    half_close_after: int | None = None
    blackhole: bool = False

    @property
    def limit(self) -> int | None:
        """After how many bytes this direction ends, if it does."""
        limits = [n for n in (self.reset_after, self.half_close_after) if n is not None]
        return min(limits, default=None)


CLEAR = Fault()


class FaultProxy:
    """Forwards connections to ``host``:``port``, with the faults that are set at each moment.

    ``to_server`` and ``to_client`` may be replaced at any time and hold for open connections too.
    With ``refuse`` set, new connections are reset at once. Use as an async context manager.
    """

    def __init__(self, host: str, port: int) -> None:
        self.to_server = CLEAR
        self.to_client = CLEAR
        self.refuse = False
        self.accepted = 0
        """How many connections came, refused ones too."""
        self.port = 0
        self._target = (host, port)
        self._server: asyncio.Server | None = None
        self._links: dict[asyncio.Task[None], list[asyncio.StreamWriter]] = {}

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._server is not None:
            self._server.close()
        links = list(self._links)
        for link in links:
            link.cancel()
        await asyncio.gather(*links, return_exceptions=True)

    @property
    def open_connections(self) -> int:
        """Connections that are being forwarded."""
        return len(self._links)

    def clear(self) -> None:
        """Back to forwarding everything."""
        self.to_server = self.to_client = CLEAR
        self.refuse = False

    def cut(self) -> None:
        """Resets every open connection on both sides."""
        for writers in self._links.values():
            for writer in writers:
                reset(writer.transport)

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        if self.refuse:
            reset(writer.transport)
            return
        link = asyncio.get_running_loop().create_task(self._link(reader, writer))
        self._links[link] = [writer]
        link.add_done_callback(self._links.pop)

    async def _link(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target)
        except OSError:
            reset(writer.transport)
            return
        link = asyncio.current_task()
        if link is not None:
            self._links[link].append(far_writer)
        there = Direction(self, "to_server", reader, far_writer)
        back = Direction(self, "to_client", far_reader, writer)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(there.run())
                group.create_task(back.run())
        except* (ConnectionBrokenError, OSError):
            reset(writer.transport)
            reset(far_writer.transport)
        finally:
            writer.close()
            far_writer.close()


class ConnectionBrokenError(Exception):
    """A fault ends the whole connection."""


class Direction:
    """One half of a forwarded connection; ``name`` is the proxy's attribute with its fault."""

    def __init__(
        self,
        proxy: FaultProxy,
        name: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._proxy = proxy
        self._name = name
        self._reader = reader
        self._writer = writer
        self._passed = 0

    @property
    def fault(self) -> Fault:
        """What is to be done at this moment."""
        fault: Fault = getattr(self._proxy, self._name)
        return fault

    async def run(self) -> None:
        """Forwards until this side ends, then ends the other side of the direction."""
        while data := await self._reader.read(READ_SIZE):
            if self.fault.latency:
                await asyncio.sleep(self.fault.latency)
            if self.fault.blackhole:
                continue
            await self._pass(data)
            if self._at_limit():
                break
        if not self.fault.blackhole and self._writer.can_write_eof():
            self._writer.write_eof()

    async def _pass(self, data: bytes) -> None:
        limit = self.fault.limit
        if limit is not None:
            data = data[: max(0, limit - self._passed)]
        size = self.fault.slice_bytes or len(data) or 1
        for start in range(0, len(data), size):
            self._writer.write(data[start : start + size])
            await self._writer.drain()
            await asyncio.sleep(0)
        self._passed += len(data)

    def _at_limit(self) -> bool:
        fault = self.fault
        if fault.reset_after is not None and self._passed >= fault.reset_after:
            raise ConnectionBrokenError
        return fault.half_close_after is not None and self._passed >= fault.half_close_after
