"""The servers of the two planes: accepting, and draining what was accepted."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any

from uvicorn.config import Config
from uvicorn.server import Server

from relay_gateway.control import create_control_app
from relay_gateway.http.server import ServerLimits, server_protocol
from relay_gateway.plugin.wire import Dialect, Problem
from relay_gateway.server.ending import Ending
from relay_gateway.server.gateway import Gateway
from relay_gateway.server.open_files import room_for_connections
from relay_gateway.settings import Settings

DATE_SECONDS = 1.0
LOOK_SECONDS = 0.01
ACCEPTED_AT_ONCE = 16
"""How many connections the inference plane accepts in one turn of the loop. uvloop accepts one for
each descriptor that it listens on, so that under full load, when a turn takes several milliseconds,
the last of 256 callers that come together waited for a second before anybody read what it said."""
LAST_WORDS_SECONDS = 0.4
"""How long callers may take for the end of an answer that was broken off."""


class PlaneServer(Server):
    """A uvicorn server that leaves signals and the order of ending to the process.

    uvicorn would look for its end every 0.1 s and drain in whole seconds; here both are told.
    ``at_once`` is how many connections it accepts in one turn of the loop.
    """

    def __init__(self, config: Config, at_once: int = 1) -> None:
        super().__init__(config)
        self._at_once = at_once
        config.load()
        self.lifespan = config.lifespan_class(config)
        self.servers: list[asyncio.base_events.Server] = []
        self._adopted: dict[int, list[asyncio.base_events.Server]] = {}
        self._ticking: asyncio.Task[None] | None = None
        self._draining = False

    async def listen(self, bound: socket.socket) -> None:
        """Begins to accept from ``bound``, which then belongs to this server."""
        await self._accept_from(bound)
        self._ticking = asyncio.get_running_loop().create_task(self._tick())

    async def adopt(self, slot: int, bound: socket.socket) -> None:
        """Accepts also from the socket of another worker, which is not there."""
        self.release(slot)
        self._adopted[slot] = await self._accept_from(bound)
        if self._draining:
            self.release(slot)

    def release(self, slot: int) -> None:
        """Leaves an adopted socket to the worker that is there again."""
        for server in self._adopted.pop(slot, []):
            server.close()
            self.servers.remove(server)

    async def drain(self, deadline: float, ending: Ending) -> bool:
        """Accepts no more and lets what is under way end until ``deadline``, a time of the loop.

        Returns whether all of it did.
        """
        self._draining = True
        for server in self.servers:
            server.close()
        if self._ticking is not None:
            self._ticking.cancel()
        # A request may have arrived that is not read yet: one turn more, and it is not cut off.
        await asyncio.sleep(LOOK_SECONDS)
        return await self._until_quiet(deadline, ending.forced)

    async def cut(self) -> None:
        """Cancels the requests that are still being worked on, and waits a moment for answers."""
        loop = asyncio.get_running_loop()
        for task in list(self.server_state.tasks):
            task.cancel()
        await self._until_quiet(loop.time() + LAST_WORDS_SECONDS, asyncio.Event())

    async def _until_quiet(self, deadline: float, forced: asyncio.Event) -> bool:
        loop, state = asyncio.get_running_loop(), self.server_state
        while True:
            # Each time, because one may have been accepted before and made only now.
            for connection in list(state.connections):
                connection.shutdown()
            if not state.connections and not state.tasks:
                return True
            if forced.is_set() or loop.time() >= deadline:
                return False
            await asyncio.sleep(LOOK_SECONDS)

    async def _accept_from(self, bound: socket.socket) -> list[asyncio.base_events.Server]:
        earlier = self.servers
        await self.startup(sockets=[bound, *(bound.dup() for _ in range(self._at_once - 1))])
        added = self.servers
        self.servers = earlier + added
        return added

    async def _tick(self) -> None:
        while True:
            await self.on_tick(0)  # the Date of answers
            await asyncio.sleep(DATE_SECONDS)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Captures none."""
        yield


def inference_server(gateway: Gateway) -> PlaneServer:
    """The server of the inference plane."""
    limits = _limits(gateway.settings)
    protocol: Any = server_protocol(gateway.plane.handle, _refuse, limits)
    return PlaneServer(_config(_no_application, http=protocol), ACCEPTED_AT_ONCE)


def _limits(settings: Settings) -> ServerLimits:
    return ServerLimits(
        body_memory_bytes=settings.body_memory_bytes,
        connections=settings.max_connections or room_for_connections(),
        connections_per_address=settings.max_connections_per_address,
        uncounted=settings.trusted_proxies,
    )


def control_server(gateway: Gateway) -> PlaneServer:
    """The server of the control plane."""
    application = create_control_app(gateway.control_services())
    return PlaneServer(_config(application, http="httptools", server_header=False))


def _config(application: Any, **options: Any) -> Config:
    return Config(
        application,
        loop="none",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        **options,
    )


async def _no_application(scope: Any, receive: Any, send: Any) -> None:
    """Never called: requests of the inference plane do not go through ASGI."""


def _refuse(status: int, code: str, message: str) -> tuple[bytes, bytes]:
    """How the inference plane words an error before it knows an endpoint."""
    _, body = Dialect().error(Problem(status, code, message))
    return b"content-type: application/json\r\n", body
