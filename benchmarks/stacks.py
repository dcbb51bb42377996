"""What is measured: a way to the upstream, and the request that goes that way."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Self

from benchmarks.processes import GATEWAY_CORE, BenchmarkError, Child, Usage


@dataclass(frozen=True, slots=True)
class Ask:
    """A request of a scenario: ``script`` tells the upstream what to do, ``size`` is the body's.

    Where ``numbered``, no two heads are the same; otherwise all of a caller's are.
    """

    script: str
    size: int
    streamed: bool = False
    numbered: bool = False

    def body(self) -> bytes:
        """A chat completion request of exactly ``size`` bytes."""
        end = b'"}]%b}' % (b',"stream":true' if self.streamed else b"")
        start = b'{"model":"%b","messages":[{"role":"user","content":"' % self.model.encode()
        return start + b"x" * (self.size - len(start) - len(end)) + end

    @property
    def events(self) -> int:
        """How many events the script's stream has; the upstream adds two that end it."""
        found = re.match(r"events(\d+)", self.script)
        return int(found[1]) + 2 if found else 0

    @property
    def model(self) -> str:
        """The model by which a gateway finds the script."""
        return f"bench-{self.script}"


class Stack(ABC):
    """A way to the upstream, alone on its core while it is measured."""

    name: ClassVar[str]
    exact: ClassVar[bool] = True
    """Whether it passes on the very bytes of the upstream."""

    def __init__(self, upstream_port: int) -> None:
        self.upstream_port = upstream_port
        self.port = 0
        self.child: Child | None = None

    @cached_property
    def directory(self) -> Path:
        """Where it keeps what it needs, until it is stopped."""
        return Path(tempfile.mkdtemp(prefix=f"benchmark-{self.name}-"))

    @abstractmethod
    def start(self, scripts: Sequence[str]) -> None:
        """Starts it so that every script can be reached; ``port`` is known afterwards."""

    def fresh(self) -> Self:
        """The same once more, not started."""
        return type(self)(self.upstream_port)

    @abstractmethod
    def version(self) -> str:
        """What was measured."""

    def path(self, ask: Ask) -> str:
        """Where the request goes."""
        return f"/{ask.script}/v1/chat/completions"

    def headers(self, ask: Ask) -> Sequence[str]:
        """Header lines besides the usual ones."""
        return ("Authorization: Bearer nobody",)

    def request(self, ask: Ask) -> bytes:
        """The whole request as it is sent."""
        body = ask.body()
        lines = (
            f"POST {self.path(ask)} HTTP/1.1",
            f"Host: 127.0.0.1:{self.port}",
            "User-Agent: benchmark/1",
            "Accept: */*",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            *(["X-Request-Id: 0000000000000000"] if ask.numbered else []),
            *self.headers(ask),
        )
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + body

    def usage(self) -> Usage:
        """What its processes have used."""
        return self.child.usage() if self.child is not None else Usage(0.0, 0)

    def settle(self) -> None:
        """Waits until work that it has put off is done."""
        if self.child is not None:
            self.child.wait_until_idle()

    def wait_until_it_listens(self, seconds: float = 10.0, pause: float = 0.005) -> None:
        """Waits until the port accepts connections; raises :class:`BenchmarkError`."""
        deadline = time.monotonic() + seconds
        while self.child is not None and not accepts(self.port):
            self.child.check()
            if time.monotonic() > deadline:
                raise BenchmarkError(f"{self.name} does not listen:\n{self.child.output}")
            time.sleep(pause)

    def stop(self) -> None:
        """Ends it and removes what it left behind."""
        if self.child is not None:
            self.child.stop()
            self.child = None
            shutil.rmtree(self.directory, ignore_errors=True)

    def run(self, arguments: Sequence[str | Path], environ: dict[str, str] | None = None) -> Child:
        """Runs the gateway's process on its core."""
        self.child = Child(arguments, GATEWAY_CORE, self.directory / f"{self.name}.log", environ)
        return self.child


class Direct(Stack):
    """No gateway at all: what is to be subtracted."""

    name = "direct"

    def start(self, scripts: Sequence[str]) -> None:
        self.port = self.upstream_port

    def version(self) -> str:
        return "no gateway"


def free_port() -> int:
    """A port of the loopback that nobody uses right now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def program(name: str, hint: str) -> str:
    """The path of an installed program; raises :class:`BenchmarkError` with ``hint``."""
    path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")
    if path is None:
        raise BenchmarkError(f"{name} is not installed: {hint}")
    return path


def output_of(*arguments: str | Path) -> str:
    """What a command prints, both ways."""
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)  # noqa: S603
    return (done.stdout + done.stderr).strip()


def accepts(port: int) -> bool:
    """Whether somebody listens on ``port`` of the loopback."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
