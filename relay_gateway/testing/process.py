"""A whole gateway in a process of its own, as an operator starts it, for tests from outside."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import httpx

_ADDRESS = re.compile(r"(inference plane|control plane)\s+(http://[^/\s]+)")
START_SECONDS = 30.0


class Observer(Protocol):
    """Whoever wants to know of processes: a :class:`.Watch`."""

    def begun(self, process: GatewayProcess) -> None:
        """It starts, or starts again."""

    def printed(self, process: GatewayProcess, place: str, text: str) -> None:
        """A program beside it has printed something."""

    def ended(self, process: GatewayProcess) -> None:
        """It is gone, and its output is complete."""


class GatewayProcess:
    """``relay-gateway serve`` on free ports with its data in ``directory``.

    ``environ`` is added to a clean environment, so that nothing of the machine's own leaks in. Use
    as an async context manager; ``stdout`` and ``stderr`` are complete after the end. What is made
    while there are ``observers`` tells them what becomes of it.
    """

    observers: ClassVar[list[Observer]] = []

    def __init__(
        self, directory: Path, environ: Mapping[str, str] | None = None, command: str = "serve"
    ) -> None:
        self.directory = directory
        self.data_dir = directory / "data"
        self.command = command
        self.inference_url = ""
        self.control_url = ""
        self.stdout = ""
        self.stderr = ""
        self._environ = dict(environ or {})
        self._observers = tuple(self.observers)
        self._begun = 0
        self._process: asyncio.subprocess.Process | None = None
        self._readers: list[asyncio.Task[None]] = []
        self._announced = asyncio.Event()
        self._printed = asyncio.Event()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    @property
    def admin_token(self) -> str:
        """The configured admin token, or the one that was generated."""
        token = self._environ.get("RELAY_ADMIN_TOKEN")
        return token or (self.data_dir / "admin-token").read_text().strip()

    @property
    def environ(self) -> Mapping[str, str]:
        """The variables that it is started with."""
        return self._environment()

    @property
    def pid(self) -> int:
        """Id of the running process."""
        assert self._process is not None
        return self._process.pid

    def control(self) -> httpx.AsyncClient:
        """A client of the control plane with the admin's credential."""
        return httpx.AsyncClient(
            base_url=self.control_url,
            headers={"authorization": f"Bearer {self.admin_token}"},
            trust_env=False,
        )

    async def start(self) -> None:
        """Starts and waits until both planes are announced. Raises ``AssertionError`` with the
        output."""
        self._announced.clear()
        self._begun = len(self.stdout)
        for observer in self._observers:
            observer.begun(self)
        self._process = process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "relay_gateway.cli.main",
            self.command,
            cwd=self.directory,
            env=self._environment(),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        self._readers = [
            asyncio.ensure_future(self._read(process.stdout, "stdout")),
            asyncio.ensure_future(self._read(process.stderr, "stderr")),
        ]
        ended = asyncio.ensure_future(process.wait())
        announced = asyncio.ensure_future(self._announced.wait())
        await asyncio.wait(
            [ended, announced], timeout=START_SECONDS, return_when=asyncio.FIRST_COMPLETED
        )
        announced.cancel()
        if not self._announced.is_set():
            await self.kill()
            raise AssertionError(f"the gateway did not start:\n{self.stdout}\n{self.stderr}")
        ended.cancel()

    async def until_printed(self, text: str, *, seconds: float = 5.0) -> None:
        """Waits until ``text`` has appeared on standard output."""
        async with asyncio.timeout(seconds):
            while text not in self.stdout:
                self._printed.clear()
                await self._printed.wait()

    def children(self) -> list[int]:
        """Ids of its child processes: workers, then the control process, as long as all are the
        first."""
        # In the order in which they were made; their numbers begin anew at some time.
        listed = Path(f"/proc/{self.pid}/task/{self.pid}/children")
        return list(map(int, listed.read_text("ascii").split())) if listed.exists() else []

    def send_signal(self, number: int) -> None:
        """Signals the process that was started, and none of its children."""
        assert self._process is not None
        self._process.send_signal(number)

    async def stop(self, *, seconds: float = 40.0) -> int:
        """Ends it with SIGTERM and returns its exit code; kills it when that takes too long."""
        if self._process is None:
            return 0
        if self._process.returncode is None:
            self.send_signal(signal.SIGTERM)
        return await self.wait(seconds=seconds)

    async def wait(self, *, seconds: float) -> int:
        """The exit code, once it has ended and so has every child that writes to its output."""
        assert self._process is not None
        try:
            async with asyncio.timeout(seconds):
                await self._process.wait()
                await asyncio.gather(*self._readers)
        except TimeoutError:
            await self.kill()
            raise AssertionError(f"no end within {seconds} s:\n{self.stderr}") from None
        self._tell_end()
        return self._process.returncode or 0

    async def kill(self) -> None:
        """Ends it at once with SIGKILL, and its children too."""
        if self._process is not None and self._process.returncode is None:
            children = self.children()
            self._process.kill()
            await self._process.wait()
            for child in children:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
        await asyncio.gather(*self._readers)
        self._tell_end()

    async def run(self, *arguments: str) -> tuple[int, str, str]:
        """Another command on the same data: exit code, standard output, standard error."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "relay_gateway.cli.main",
            *arguments,
            cwd=self.directory,
            env=self._environment(),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await asyncio.wait_for(process.communicate(), 60)
        self.heard(" ".join(("relay-gateway", *arguments)), out.decode() + err.decode())
        return process.returncode or 0, out.decode(), err.decode()

    def heard(self, place: str, text: str) -> None:
        """Tells the observers what another program has printed about this gateway."""
        for observer in self._observers:
            observer.printed(self, place, text)

    def _tell_end(self) -> None:
        for observer in self._observers:
            observer.ended(self)

    def _environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        defaults = {
            "RELAY_DATA_DIR": str(self.data_dir),
            "RELAY_PORT": "0",
            "RELAY_CONTROL_PORT": "0",
            "RELAY_LOG_LEVEL": "debug",
        }
        return {**kept, **defaults, **self._environ}

    async def _read(self, stream: Any, name: str) -> None:
        async for line in stream:
            setattr(self, name, getattr(self, name) + line.decode(errors="replace"))
            self._printed.set()
            self._look_for_addresses()

    def _look_for_addresses(self) -> None:
        found = dict(_ADDRESS.findall(self.stdout, self._begun))
        if len(found) == 2:
            self.inference_url = found["inference plane"]
            self.control_url = found["control plane"]
            self._announced.set()
