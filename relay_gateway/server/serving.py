"""Serving with a gateway that is open: planes up, waiting, and ending in order."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import sys
from collections.abc import Callable
from functools import partial

import msgspec

from relay_gateway.server.ending import Ending
from relay_gateway.server.gateway import Gateway
from relay_gateway.server.instruments import Load
from relay_gateway.server.planes import PlaneServer, control_server, inference_server

COLLECT_AFTER = (2_000, 0, 5_000)
"""How many more objects than are let go of may be made before the youngest are looked through, how
often more than once that may happen before the middle-aged are as well, and how often these before
all. No request is answered meanwhile: beside 3 000 connections 20 000 objects took 14 ms, and 4 000
take 1.6. Fewer at a time do not take longer together: each is looked at twice either way."""
SWITCH_SECONDS = 0.0001
"""Python's own is 0.005. A request gives the interpreter away four times, at both of its wake-ups
and at both writes to the spool, and waits for it as long each time while another thread works."""
CONTROL_SECONDS = 0.5
"""How long requests of the control plane may take when the time to drain is used up."""

_log = logging.getLogger(__name__)


class Planes(msgspec.Struct, frozen=True):
    """The servers of this process: both, or the one that it is there for."""

    gateway: Gateway
    inference: PlaneServer | None
    control: PlaneServer | None


async def open_planes(
    gateway: Gateway, inference: socket.socket | None, control: socket.socket | None
) -> Planes:
    """Listens on the sockets that are given."""
    lag = gateway.instruments.lag
    lag.stop()  # nobody waits yet, and making the control plane takes its time
    planes = Planes(
        gateway,
        inference_server(gateway) if inference is not None else None,
        control_server(gateway) if control is not None else None,
    )
    if planes.inference is not None and inference is not None:
        await planes.inference.listen(inference)
        gateway.instruments.load = partial(_load, planes.inference)
    if planes.control is not None and control is not None:
        await planes.control.listen(control)
    settle_memory()
    share_interpreter()
    lag.start()
    return planes


async def serve_until_asked(planes: Planes, ending: Ending, ready: Callable[[], None]) -> None:
    """Serves until the end is asked for, then ends: not ready, no more accepted, answers finished,
    those that are not at the deadline broken off with a word about it."""
    if not ending.asked.is_set():
        ready()
    await ending.asked.wait()
    gateway = planes.gateway
    gateway.plane.draining = True
    deadline = asyncio.get_running_loop().time() + gateway.settings.shutdown_seconds
    # The inference plane drains first; the control plane says so meanwhile.
    if planes.inference is not None:
        await _drain_inference(gateway, planes.inference, deadline, ending)
    if planes.control is not None:
        await _drain_control(planes.control, deadline, ending)


def settle_memory() -> None:
    """Takes what lives as long as the process out of every later garbage collection, and lets those
    be rare: a request leaves no cycles behind, so there is next to nothing for them to find."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)


def _load(server: PlaneServer) -> Load:
    state = server.server_state
    return Load(len(state.connections), len(state.tasks))


def share_interpreter() -> None:
    """Has threads hand over the interpreter soon: one that builds a snapshot, or hands a batch to a
    sink, would otherwise keep requests waiting for five milliseconds each time they wake up, and
    each time they have written to a file."""
    sys.setswitchinterval(SWITCH_SECONDS)


async def _drain_inference(
    gateway: Gateway, server: PlaneServer, deadline: float, ending: Ending
) -> None:
    if await server.drain(deadline, ending):
        return
    _log.warning("answers that were not complete when the time was over are broken off")
    gateway.plane.interrupt()
    await server.cut()


async def _drain_control(server: PlaneServer, deadline: float, ending: Ending) -> None:
    soon = asyncio.get_running_loop().time() + CONTROL_SECONDS
    if not await server.drain(max(deadline, soon), ending):
        await server.cut()
