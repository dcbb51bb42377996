"""Listening on both planes until a signal, and stopping in order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import uvicorn
import uvloop

from relay_gateway.control import create_control_app
from relay_gateway.errors import SettingsError
from relay_gateway.http.server import server_protocol
from relay_gateway.plugin.wire import Dialect, Problem
from relay_gateway.server.parts import Gateway, open_gateway
from relay_gateway.settings import Settings

BACKLOG = 2048

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Started:
    """Where a gateway can be reached; ``control_url`` is ``None`` when that plane is off."""

    inference_url: str
    control_url: str | None


class _Plane(uvicorn.Server):
    """A uvicorn server that leaves signals to the process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def serve(settings: Settings, *, announce: Callable[[Started], None]) -> int:
    """Serves both planes until SIGTERM or SIGINT; returns the exit code of the process.

    ``announce`` is called once when both planes answer. A second signal ends at once.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_serve(settings, announce))


async def _serve(settings: Settings, announce: Callable[[Started], None]) -> int:
    with contextlib.ExitStack() as sockets:
        inference = sockets.enter_context(_bind(settings.host, settings.port, "port"))
        control = None
        if settings.control_port is not None:
            control = sockets.enter_context(
                _bind(settings.control_host, settings.control_port, "control_port")
            )
        async with open_gateway(settings) as gateway:
            planes = [(_inference_plane(gateway), inference)]
            if control is not None:
                planes.append((_control_plane(gateway), control))
            await _run(gateway, planes, lambda: announce(_started(inference, control)))
    return 0


async def _run(
    gateway: Gateway, planes: list[tuple[_Plane, socket.socket]], announce: Callable[[], None]
) -> None:
    stop = asyncio.Event()
    _on_signals(gateway, [plane for plane, _ in planes], stop)
    running = [asyncio.ensure_future(plane.serve(sockets=[bound])) for plane, bound in planes]
    try:
        await _until_started([plane for plane, _ in planes], running)
        announce()
        await asyncio.wait(
            [asyncio.ensure_future(stop.wait()), *running], return_when=asyncio.FIRST_COMPLETED
        )
        # The inference plane drains first; the control plane says so meanwhile.
        for (plane, _), task in zip(planes, running, strict=True):
            plane.should_exit = True
            await task
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def _on_signals(gateway: Gateway, planes: list[_Plane], stop: asyncio.Event) -> None:
    def stop_once() -> None:
        if stop.is_set():
            for plane in planes:
                plane.force_exit = True
        gateway.plane.draining = True
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop_once)


async def _until_started(planes: Sequence[_Plane], running: Sequence[asyncio.Future[None]]) -> None:
    while not all(plane.started for plane in planes):
        for task in running:
            if task.done():
                await task
        await asyncio.sleep(0.005)


def _inference_plane(gateway: Gateway) -> _Plane:
    protocol: Any = server_protocol(gateway.plane.handle, _refuse)
    return _Plane(_config(gateway.settings, _no_application, http=protocol))


def _control_plane(gateway: Gateway) -> _Plane:
    application = create_control_app(gateway.control_services())
    return _Plane(_config(gateway.settings, application, http="httptools", server_header=False))


def _config(settings: Settings, application: Any, **options: Any) -> uvicorn.Config:
    return uvicorn.Config(
        application,
        loop="none",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        timeout_graceful_shutdown=max(1, round(settings.shutdown_seconds)),
        **options,
    )


async def _no_application(scope: Any, receive: Any, send: Any) -> None:
    """Never called: requests of the inference plane do not go through ASGI."""


def _refuse(status: int, code: str, message: str) -> tuple[bytes, bytes]:
    """How the inference plane words an error before it knows an endpoint."""
    _, body = Dialect().error(Problem(status, code, message))
    return b"content-type: application/json\r\n", body


def _bind(host: str, port: int, setting: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        bound = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise SettingsError(
            f"{setting}: cannot listen on {host} port {port}: {os.strerror(error.errno or 0)}; "
            "stop what listens there or choose another port"
        ) from error
    bound.setblocking(False)
    return bound


def _started(inference: socket.socket, control: socket.socket | None) -> Started:
    return Started(_url(inference), _url(control) if control is not None else None)


def _url(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
