"""What installed plugins cost the requests that do not use them.

``python -m benchmarks.plugins`` installs 0, 5 and 20 distributions, each with a plugin of each kind
and a wire format of its own, beside the gateway, and prints a table of what a request costs then:
calls, which noise hardly moves, and CPU of the event loop's thread.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from benchmarks.cost import Conversation, Loop, quietest, with_gateway

NUMBERS = (0, 5, 20)
ROUNDS = 3
REQUESTS = 200
REPEATS = 7
_SECONDS = 120.0

_MODULE = '''\
"""A distribution of the benchmark: one plugin of every kind, none of which is used."""

from typing import Literal

from relay_gateway.plugin import (
    Dialect, Endpoint, PayloadLogger, SecretBackend, SecretRef, StateStore, UpstreamProvider,
    UsageMeter, UsageSink, WireFormat, hookimpl,
)


class Ref(SecretRef):
    kind: Literal["NAME"] = "NAME"


class Backend(SecretBackend):
    name = "NAME"
    Ref = Ref


class Own(Dialect):
    name = "NAME"


class Talk(WireFormat):
    name = "NAME.talk"
    dialect = Own
    endpoints = (Endpoint("NAME.talk", "/v1/NAME/talk", "/talk"),)

    def meter(self):
        return UsageMeter()


class Provider(UpstreamProvider):
    name = "NAME"
    wire_formats = ("NAME.talk",)
    defines = (Talk,)


class Sink(UsageSink):
    name = "NAME"


class Logger(PayloadLogger):
    name = "NAME"


class Store(StateStore):
    name = "NAME"


@hookimpl
def relay_register_secret_backends():
    return (Backend,)


@hookimpl
def relay_register_upstream_providers():
    return (Provider,)


@hookimpl
def relay_register_usage_sinks():
    return (Sink,)


@hookimpl
def relay_register_payload_loggers():
    return (Logger,)


@hookimpl
def relay_register_state_stores():
    return (Store,)
'''


class PluginCost(msgspec.Struct, frozen=True):
    """What a request costs; ``microseconds`` are of CPU, 0 where they were not measured."""

    calls: float
    microseconds: float = 0.0


def install(directory: Path, number: int) -> None:
    """Puts so many distributions into ``directory``, which is to be on the search path."""
    for index in range(number):
        name = f"bench{index}"
        module = f"relay_gateway_{name}"
        (directory / f"{module}.py").write_text(_MODULE.replace("NAME", name), "utf-8")
        metadata = directory / f"{module}-1.0.dist-info"
        metadata.mkdir()
        text = f"Metadata-Version: 2.1\nName: relay-gateway-{name}\nVersion: 1.0\n"
        (metadata / "METADATA").write_text(text, "utf-8")
        (metadata / "entry_points.txt").write_text(f"[relay_gateway]\n{name} = {module}\n", "utf-8")


def cost_with(number: int, *, timed: bool = True) -> PluginCost:
    """What a request costs beside so many distributions, in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="benchmark-plugins-") as directory:
        install(Path(directory), number)
        command = [sys.executable, "-m", "benchmarks.plugins", "--expect", str(number)]
        done = subprocess.run(  # noqa: S603 - this program
            [*command, "--timed" if timed else "--no-timed"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([directory, *sys.path])},
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    if done.returncode:
        raise RuntimeError(f"the gateway with {number} plugins failed: {done.stderr[-2000:]}")
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=PluginCost)


def table(numbers: Sequence[int], rounds: int) -> str:
    """The table as Markdown, of rounds that take turns."""
    found: dict[int, list[PluginCost]] = {number: [] for number in numbers}
    for _ in range(rounds):
        for number in numbers:
            found[number].append(cost_with(number))
    lines = ["| installed besides | calls per request | CPU per request |", "|---|---|---|"]
    for number, costs in found.items():
        calls = statistics.median(one.calls for one in costs)
        microseconds = statistics.median(one.microseconds for one in costs)
        lines.append(f"| {number} | {calls:.1f} | {microseconds:.0f} µs |")
    return "\n".join(lines) + "\n"


def _counted(conversation: Conversation, loop: Loop, *, timed: bool) -> PluginCost:
    def requests() -> None:
        for _ in range(REQUESTS):
            conversation.request()

    requests()
    calls = quietest(loop.calls_of, requests) / REQUESTS
    if not timed:
        return PluginCost(calls)
    seconds = statistics.median(loop.cpu_of(requests) for _ in range(REPEATS))
    return PluginCost(calls, seconds / REQUESTS * 1e6)


def _require(number: int) -> None:
    """Refuses to measure a gateway that has not found what was installed for it."""
    from relay_gateway.registry import Registry

    names = [name for name in Registry.discover().upstream_providers if name.startswith("bench")]
    if len(names) != number:
        raise RuntimeError(f"{number} plugins were installed, {len(names)} are there")


def main(
    expect: Annotated[
        int | None, typer.Option(help="Measure this process, which has so many of them.")
    ] = None,
    timed: Annotated[  # noqa: FBT002 - a flag of a command
        bool, typer.Option(help="CPU, too.")
    ] = True,
    rounds: Annotated[int, typer.Option(min=1)] = ROUNDS,
) -> None:
    """Prints what a request costs beside 0, 5 and 20 plugins that it does not use."""
    if expect is None:
        sys.stdout.write(table(NUMBERS, rounds))
        return
    _require(expect)
    cost = with_gateway(lambda conversation, loop: _counted(conversation, loop, timed=timed))
    sys.stdout.write(msgspec.json.encode(cost).decode() + "\n")


if __name__ == "__main__":
    typer.run(main)
