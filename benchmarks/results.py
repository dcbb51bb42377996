"""What a run found: measurements, where and of what, and the medians of its rounds."""

from __future__ import annotations

import os
import platform
import re
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from benchmarks.processes import BenchmarkError
from benchmarks.scenarios import ROWS, Comparison, Row
from benchmarks.stacks import output_of

RESULTS = Path(__file__).parent / "results"


class Measurement(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One scenario with one stack in one round. Fields that do not apply are absent.

    ``cpu_us_per_request`` and ``cpu_us_per_event`` are user and system time of the gateway while it
    was loaded; ``late_cpu_us_per_request`` is what it used afterwards for work it had put off, and
    ``spare`` the part of their core that upstream and load generator left idle.
    """

    scenario: str
    stack: str
    round: int
    requests: int = 0
    requests_per_second: float | None = None
    p50_us: float | None = None
    p99_us: float | None = None
    first_byte_p50_us: float | None = None
    events_per_second: float | None = None
    cpu_us_per_request: float | None = None
    cpu_us_per_event: float | None = None
    late_cpu_us_per_request: float | None = None
    spare: float | None = None
    kib_per_stream: float | None = None
    start_seconds: float | None = None
    rest_mib: float | None = None
    growth_mib: float | None = None


class Machine(msgspec.Struct, frozen=True):
    """Where it was measured."""

    processor: str
    cores: int
    kernel: str
    python: str
    compiler: str
    load_average_before: float


class Report(msgspec.Struct, frozen=True):
    """A whole run.

    ``lost_records`` counts requests without a usage record at the end, ``failures`` tells which
    peers could not be measured with what. ``sink`` took the gateway's usage records;
    ``sink_us_per_record`` is what a record cost there in CPU, measured by itself.
    """

    command: str
    started_at: str
    revision: str
    machine: Machine
    versions: dict[str, str]
    rounds: int
    lost_records: int
    failures: list[str]
    measurements: list[Measurement]
    sink: str = ""
    sink_us_per_record: float | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """A row of the table with its medians; ``value`` is what the target is about."""

    row: Row
    medians: Mapping[str, float]
    value: float

    @property
    def reached(self) -> bool | None:
        """Whether the target was reached; ``None`` where there is none."""
        if self.row.least is not None:
            return self.value >= self.row.least
        if self.row.most is not None:
            return self.value <= self.row.most
        return None


def machine() -> Machine:
    """This machine, as it is now."""
    found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return Machine(
        processor=found[1] if found else platform.processor(),
        cores=os.cpu_count() or 1,
        kernel=platform.release(),
        python=platform.python_version(),
        compiler=output_of("cc", "--version").partition("\n")[0],
        load_average_before=round(os.getloadavg()[0], 2),
    )


def revision() -> str:
    """The commit that is checked out, marked when there are changes on top of it."""
    try:
        return output_of("git", "-C", Path(__file__).parent, "describe", "--always", "--dirty")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def save(report: Report, path: Path) -> None:
    """Writes ``report`` as indented JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n")


def load(path: Path) -> Report:
    """Reads what :func:`save` wrote; raises :class:`BenchmarkError`."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Report)
    except (OSError, msgspec.MsgspecError) as error:
        raise BenchmarkError(f"{path} is no result of a run: {error}") from error


def now() -> str:
    """This moment, for file names as for people."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def lines(report: Report) -> list[Line]:
    """The rows of the table that the run has figures for."""
    found = []
    for row in ROWS:
        rounds = _rounds(report.measurements, row)
        values = [value for figures in rounds if (value := _value(row, figures)) is not None]
        if values:
            found.append(Line(row, _medians(rounds), statistics.median(values)))
    return found


def _rounds(measurements: Sequence[Measurement], row: Row) -> list[dict[str, float]]:
    """The row's figure of each stack, round by round."""
    rounds: dict[int, dict[str, float]] = {}
    for measurement in measurements:
        figure = getattr(measurement, row.figure.field)
        if measurement.scenario == row.scenario and figure is not None:
            rounds.setdefault(measurement.round, {})[measurement.stack] = figure
    return list(rounds.values())


def _medians(rounds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    stacks = dict.fromkeys(stack for figures in rounds for stack in figures)
    return {
        stack: statistics.median(figures[stack] for figures in rounds if stack in figures)
        for stack in stacks
    }


def _value(row: Row, figures: Mapping[str, float]) -> float | None:
    """The comparison within one round, so that what disturbs a round disturbs both sides."""
    ours, reference = figures.get("relay"), figures.get(row.reference)
    direct = figures.get("direct")
    if ours is None or row.comparison is Comparison.ABSOLUTE:
        return ours
    if row.comparison is Comparison.ADDED:
        return None if direct is None else ours - direct
    if reference is None:
        return None
    if row.comparison is Comparison.RATIO:
        return ours / reference if reference else None
    if direct is None or reference <= direct:
        return None
    return (ours - direct) / (reference - direct)
