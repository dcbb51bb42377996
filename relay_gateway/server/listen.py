"""Listening on both planes until a signal, in one process or in several."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass

import uvloop

from relay_gateway.registry import Registry
from relay_gateway.server.ending import Ending
from relay_gateway.server.parts import configure_plugins, open_gateway, prepare
from relay_gateway.server.serving import open_planes, serve_until_asked
from relay_gateway.server.sockets import bound_sockets, url_of
from relay_gateway.server.supervisor import Supervisor
from relay_gateway.server.workers import posts_of
from relay_gateway.settings import Settings

FORCED_SECONDS = 1.8


@dataclass(frozen=True, slots=True)
class Started:
    """Where a gateway can be reached; ``control_url`` is ``None`` when that plane is off."""

    inference_url: str
    control_url: str | None


def serve(settings: Settings, *, announce: Callable[[Started], None]) -> int:
    """Serves both planes until SIGTERM or SIGINT; returns the exit code of the process.

    ``announce`` is called once when both planes answer. A second signal ends at once.
    """
    with bound_sockets(settings) as (inference, control):
        started = Started(url_of(inference[0]), url_of(control) if control is not None else None)
        registry = Registry.discover(enabled=settings.plugins.enabled)
        if settings.workers > 1:
            # Not uvloop, which may leave threads behind: this process is going to fork.
            plugins = configure_plugins(settings, registry)
            prepared = asyncio.run(prepare(settings, registry, plugins))
            posts = posts_of(settings, registry, inference, control, prepared=prepared)
            return Supervisor(posts, settings.shutdown_seconds).run(lambda: announce(started))
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(
                _serve_alone(settings, registry, inference[0], control, lambda: announce(started))
            )
    return 0


async def _serve_alone(
    settings: Settings,
    registry: Registry,
    inference: socket.socket,
    control: socket.socket | None,
    ready: Callable[[], None],
) -> None:
    ending = Ending(FORCED_SECONDS)
    ending.on_signals()
    plugins = configure_plugins(settings, registry)
    prepared = await prepare(settings, registry, plugins)
    async with open_gateway(settings, plugins, registry.seeds, prepared=prepared) as gateway:
        planes = await open_planes(gateway, inference, control)
        await serve_until_asked(planes, ending, ready)
