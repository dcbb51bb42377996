"""The table of a run: on a terminal, and as Markdown for the documentation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table

from benchmarks.results import Line, Measurement, Report, lines
from benchmarks.scenarios import Comparison
from benchmarks.sinks import BATCH

ENOUGH_SPARE = 0.3
IDLE = 0.5
"""A load average up to which the machine was idle."""
_MARKS = {True: "reached", False: "missed", None: ""}


def show(report: Report, console: Console) -> None:
    """Prints the table and what there is to say about it."""
    table = Table()
    for name in _heading(report):
        numeric = name not in ("scenario", "figure", "")
        table.add_column(name, justify="right" if numeric else "left")
    for cells in _cells(report):
        table.add_row(*cells)
    console.print(table)
    for remark in remarks(report):
        console.print(remark)


def markdown(report: Report) -> str:
    """The same as Markdown."""
    heading = _heading(report)
    rule = ["---" if name in ("scenario", "figure", "") else "---:" for name in heading]
    rows = [heading, rule, *_cells(report)]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in rows)
    return "\n".join([table, "", *(f"* {remark}" for remark in remarks(report)), ""])


def remarks(report: Report) -> Iterator[str]:
    """What the reader must know of how the figures came about."""
    machine = report.machine
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    yield (
        f"{report.started_at}, revision {report.revision}, `{report.command}`: medians of "
        f"{report.rounds} interleaved rounds."
    )
    yield (
        f"{machine.processor}, {machine.cores} cores, Linux {machine.kernel}, Python "
        f"{machine.python}, {versions}; load average before the run "
        f"{machine.load_average_before:.2f}."
    )
    if machine.load_average_before > IDLE:
        yield "The machine was not idle before the run: others disturbed these figures."
    yield from report.failures
    late = [m.late_cpu_us_per_request for m in report.measurements if m.stack == "relay"]
    known = [figure for figure in late if figure is not None]
    if known:
        yield (
            f"After the load had ended, relay worked on for up to {max(known):.0f} µs of CPU per "
            f"request to deliver usage records; {report.lost_records} records were lost."
        )
    if report.sink_us_per_record is not None:
        yield (
            f"Usage records went to the sink `{report.sink}`, which by itself takes "
            f"{report.sink_us_per_record:.1f} µs of CPU per request, in batches of {BATCH}."
        )
    tight = sorted({m.scenario for m in report.measurements if _is_tight(m)})
    if tight:
        yield (
            f"Upstream and load generator had less than {ENOUGH_SPARE:.0%} of their core to spare, "
            f"with some gateway between them, in: {'; '.join(tight)}."
        )


def _is_tight(measurement: Measurement) -> bool:
    """Whether the load may have been the limit; without a gateway it always is."""
    spare = measurement.spare
    return measurement.stack != "direct" and spare is not None and spare < ENOUGH_SPARE


def _heading(report: Report) -> list[str]:
    return ["scenario", "figure", *_stacks(lines(report)), "comparison", "target", ""]


def _stacks(found: Sequence[Line]) -> list[str]:
    return list(dict.fromkeys(stack for line in found for stack in line.medians))


def _cells(report: Report) -> Iterator[list[str]]:
    found = lines(report)
    stacks = _stacks(found)
    for line in found:
        figures = [_number(line.medians[s]) if s in line.medians else "" for s in stacks]
        yield [
            line.row.scenario,
            line.row.figure.unit,
            *figures,
            _compared(line),
            _target(line),
            _MARKS[line.reached],
        ]


def _compared(line: Line) -> str:
    comparison = line.row.comparison
    if comparison is Comparison.ABSOLUTE:
        return ""
    if comparison is Comparison.ADDED:
        return f"{_number(line.value)} added"
    added = " of what is added" if comparison is Comparison.ADDED_RATIO else ""
    return f"{_number(line.value)} × {line.row.reference}{added}"


def _target(line: Line) -> str:
    if line.row.least is not None:
        return f"≥ {line.row.least:g}"
    return f"≤ {line.row.most:g}" if line.row.most is not None else ""


def _number(value: float) -> str:
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f}".replace(",", " ")
