"""Callers that come together are accepted together, also by a loop that is busy."""

from __future__ import annotations

import asyncio
import socket
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import uvloop
from uvicorn.config import Config
from uvicorn.server import ServerState

from relay_gateway.server.ending import Ending
from relay_gateway.server.gateway import Gateway
from relay_gateway.server.planes import ACCEPTED_AT_ONCE, PlaneServer, inference_server
from relay_gateway.settings import Settings

MANY = 8 * ACCEPTED_AT_ONCE


class Counted(asyncio.Protocol):
    """A connection that is only counted."""

    def __init__(self, *, server_state: ServerState, **_: object) -> None:
        self._connections: set[Any] = server_state.connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)

    def shutdown(self) -> None:
        self._transport.close()


async def _application(_scope: object, _receive: object, _send: object) -> None:
    """Is never asked."""


async def turns_until_all_are_in(at_once: int) -> int:
    """How many turns of the loop it takes to accept callers that the kernel has connected."""
    server = PlaneServer(
        Config(_application, http=Counted, lifespan="off", log_config=None), at_once
    )
    bound = socket.create_server(("127.0.0.1", 0), backlog=MANY)
    address = bound.getsockname()
    await server.listen(bound)
    turns = 0
    with ExitStack() as stack:
        for _ in range(MANY):
            stack.enter_context(socket.create_connection(address))
        while len(server.server_state.connections) < MANY:
            await asyncio.sleep(0)
            turns += 1
        assert await server.drain(asyncio.get_running_loop().time() + 5, Ending(5.0))
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address)
    return turns


def test_r19_callers_that_come_together_are_not_accepted_one_by_one() -> None:
    one_by_one = uvloop.run(turns_until_all_are_in(1))
    together = uvloop.run(turns_until_all_are_in(ACCEPTED_AT_ONCE))
    assert one_by_one >= MANY
    assert together <= MANY // 4


async def descriptors_of_the_inference_plane(directory: Path) -> int:
    """How many it listens on: it accepts a connection from each of them per turn."""
    plane = SimpleNamespace(handle=None)
    gateway = SimpleNamespace(settings=Settings(data_dir=directory), plane=plane)
    server = inference_server(cast("Gateway", gateway))
    await server.listen(socket.create_server(("127.0.0.1", 0)))
    listening = len(server.servers)
    await server.drain(asyncio.get_running_loop().time() + 5, Ending(5.0))
    return listening


def test_r19_the_inference_plane_accepts_several_at_once(tmp_path: Path) -> None:
    assert uvloop.run(descriptors_of_the_inference_plane(tmp_path)) == ACCEPTED_AT_ONCE
