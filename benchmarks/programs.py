"""The two C programs: compiled when they are needed, and run."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from benchmarks.processes import LOAD_CORE, BenchmarkError, Child

SOURCES = Path(__file__).parent / "native"
FLAGS = ("-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror")
_FINISH_SECONDS = 600.0


class Quantiles(msgspec.Struct, frozen=True):
    """Microseconds."""

    p50: float
    p90: float
    p99: float
    max: float
    mean: float


class LoadResult(msgspec.Struct, frozen=True):
    """What the load generator saw while it measured; ``all_answers`` includes the warm-up."""

    latency_us: Quantiles
    first_byte_us: Quantiles
    answers: int
    all_answers: int
    events: int
    body_bytes: int
    errors: int
    reconnects: int
    seconds: float
    cpu_seconds: float


def compile_program(name: str, directory: Path) -> Path:
    """Compiles ``native/{name}.c`` into ``directory``; raises :class:`BenchmarkError`."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise BenchmarkError("no C compiler found: install gcc or clang as `cc`")
    target = directory / name
    done = subprocess.run(  # noqa: S603 - our own sources
        [compiler, *FLAGS, "-o", target, SOURCES / f"{name}.c"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise BenchmarkError(f"{name}.c does not compile:\n{done.stderr}")
    return target


class Upstream(Child):
    """The scripted upstream; ``port`` is on the loopback."""

    def __init__(self, program: Path, log: Path) -> None:
        super().__init__([program], LOAD_CORE, log)
        self.port = int(self.wait_for(r"^(\d+)$"))


class Load:
    """One run of the load generator; entering it waits for the end of its warm-up."""

    def __init__(self, program: Path, port: int, request: Path, options: Sequence[str]) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            ["taskset", "-c", str(LOAD_CORE), program, str(port), request, *options],  # noqa: S607
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,  # a buffer here would keep from `finish` what came with the first line
        )

    def __enter__(self) -> Self:
        self.wait_for("measuring")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()

    def wait_for(self, word: str) -> None:
        """Waits for a line of output; raises :class:`BenchmarkError` when it ends without it."""
        output = self._process.stdout
        if output is None or output.readline().decode().strip() != word:
            _, errors = self._process.communicate()
            raise BenchmarkError(f"the load generator did not get to {word!r}: {errors.decode()}")

    def finish(self) -> LoadResult:
        """Waits for the end (a run that holds is told to end now) and gives the result.

        Raises :class:`BenchmarkError` when there was any error.
        """
        output, errors = self._process.communicate(timeout=_FINISH_SECONDS)
        if self._process.returncode != 0:
            raise BenchmarkError(f"the load generator failed: {errors.decode()}")
        result = msgspec.json.decode(output, type=LoadResult)
        if result.errors:
            raise BenchmarkError(f"{result.errors} errors, beginning with:\n{errors.decode()}")
        return result
