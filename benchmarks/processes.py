"""Child processes on a core of their own, and what the kernel says they used."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

GATEWAY_CORE = 0
LOAD_CORE = 1
"""Upstream and load generator share this one, and so does the benchmark itself."""

_TICK = 1 / os.sysconf("SC_CLK_TCK")
_PAUSE = 0.005


class BenchmarkError(Exception):
    """A figure could not be had, or would be wrong."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process and its descendants have used: seconds of CPU, and resident bytes."""

    cpu_seconds: float
    resident_bytes: int


class Child:
    """A process pinned to ``core`` whose output goes to ``log``; a context manager."""

    def __init__(
        self,
        arguments: Sequence[str | Path],
        core: int,
        log: Path,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._log = log
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        with log.open("wb") as output:
            self._process = subprocess.Popen(  # noqa: S603 - our own programs
                ["taskset", "-c", str(core), *arguments],  # noqa: S607 - found in PATH
                cwd=log.parent,
                env=kept | dict(environ or {}),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def output(self) -> str:
        """All that was printed so far."""
        return self._log.read_text("utf-8", errors="replace")

    def stop(self, seconds: float = 40.0) -> None:
        """Ends it with SIGTERM, and with SIGKILL when that takes too long."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(seconds)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def wait_for(self, pattern: str, seconds: float = 60.0) -> str:
        """The first group of ``pattern`` in the output, as soon as it is there."""
        deadline = time.monotonic() + seconds
        while True:
            output = self.output
            found = re.search(pattern, output, re.MULTILINE)
            if found is not None:
                return found[1]
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise BenchmarkError(f"no {pattern!r} in the output of {self._log.name}:\n{output}")
            time.sleep(_PAUSE)

    def check(self) -> None:
        """Raises :class:`BenchmarkError` when it has ended by itself."""
        if self._process.poll() is not None:
            raise BenchmarkError(f"{self._log.name} has ended:\n{self.output}")

    def usage(self) -> Usage:
        """What it and its descendants have used so far."""
        self.check()
        pids = _family(self._process.pid)
        return Usage(sum(map(_cpu_seconds, pids)), sum(map(_resident_bytes, pids)))

    def wait_until_idle(self, seconds: float = 120.0) -> None:
        """Waits until it uses hardly any CPU: what it had put off is done."""
        deadline = time.monotonic() + seconds
        before = self.usage().cpu_seconds
        while time.monotonic() < deadline:
            time.sleep(0.3)
            now = self.usage().cpu_seconds
            if now - before <= 0.03:
                return
            before = now
        raise BenchmarkError(f"{self._log.name} is still busy after {seconds:g} s without traffic")


def _family(pid: int) -> list[int]:
    """``pid`` and its descendants."""
    family = [pid]
    for member in family:
        with suppress(FileNotFoundError, ProcessLookupError):  # threads end while they are listed
            for task in Path(f"/proc/{member}/task").iterdir():
                family += map(int, (task / "children").read_text().split())
    return family


def _cpu_seconds(pid: int) -> float:
    """User and system time of all threads, those that have ended included (proc(5))."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * _TICK


def _resident_bytes(pid: int) -> int:
    found = re.search(r"^VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return int(found[1]) * 1024 if found else 0
