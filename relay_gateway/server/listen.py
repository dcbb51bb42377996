"""Listening on both planes until a signal, in one process or in several."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import uvloop

from relay_gateway.registry import Registry
from relay_gateway.server.ending import Ending
from relay_gateway.server.hardening import harden_process, withdraw
from relay_gateway.server.opening import open_gateway
from relay_gateway.server.plugin_instances import configure_plugins
from relay_gateway.server.plugin_inventory import record_inventory
from relay_gateway.server.preparation import prepare
from relay_gateway.server.serving import open_planes, serve_until_asked
from relay_gateway.server.sockets import bound_sockets, url_of
from relay_gateway.server.supervisor import Supervisor
from relay_gateway.server.workers import posts_of
from relay_gateway.settings import CONFIG_VARIABLE, SECRET_VARIABLES, Settings

FORCED_SECONDS = 1.8

_log = logging.getLogger(__name__)


class Started(msgspec.Struct, frozen=True):
    """Where a gateway can be reached; ``control_url`` is ``None`` when that plane is off."""

    inference_url: str
    control_url: str | None


def serve(
    settings: Settings, *, announce: Callable[[Started], None], config_path: Path | None = None
) -> int:
    """Serves both planes until SIGTERM or SIGINT; returns the exit code of the process.

    ``announce`` is called once when both planes answer. A second signal ends at once. SIGHUP has
    the sections of plugins read again, from ``config_path`` where that is given.
    """
    with bound_sockets(settings) as (inference, control):
        started = Started(url_of(inference[0]), url_of(control) if control is not None else None)
        # A port of 0 is whatever was free.
        settings = settings.model_copy(update={"port": inference[0].getsockname()[1]})
        registry = Registry.discover(enabled=settings.plugins.enabled)
        environ = _take_environment(registry, config_path)
        if settings.workers > 1:
            # Not uvloop, which may leave threads behind: this process is going to fork.
            plugins = configure_plugins(settings, registry, environ)
            prepared = asyncio.run(prepare(settings, registry, plugins, environ))
            posts = posts_of(settings, registry, environ, inference, control, prepared=prepared)
            return Supervisor(posts, settings.shutdown_seconds).run(lambda: announce(started))
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(
                _serve_alone(
                    settings, registry, environ, inference[0], control, lambda: announce(started)
                )
            )
    return 0


async def _serve_alone(
    settings: Settings,
    registry: Registry,
    environ: Mapping[str, str],
    inference: socket.socket,
    control: socket.socket | None,
    ready: Callable[[], None],
) -> None:
    ending = Ending(FORCED_SECONDS)
    ending.on_signals()
    plugins = configure_plugins(settings, registry, environ, withdraw)
    prepared = await prepare(settings, registry, plugins, environ)
    async with open_gateway(
        settings, plugins, registry.seeds, environ, prepared=prepared
    ) as gateway:
        ending.on_hangup = gateway.reload_soon
        gateway.watcher.listen(record_inventory(gateway.engine, plugins.inventory()))
        planes = await open_planes(gateway, inference, control)
        await serve_until_asked(planes, ending, ready)


def _take_environment(registry: Registry, config_path: Path | None) -> Mapping[str, str]:
    """The variables as they are now; from here on those with credentials are in no environment."""
    if not harden_process():
        _log.warning("other processes of this user can read the memory of this one here")
    environ = dict(os.environ)
    if config_path is not None:
        environ[CONFIG_VARIABLE] = str(config_path.absolute())
    withdraw(SECRET_VARIABLES)
    withdraw(key.variable for seed in registry.seeds for key in seed.environment_keys)
    return environ
