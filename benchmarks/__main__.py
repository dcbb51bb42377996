"""``python -m benchmarks``: measures the gateway and prints the table."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.processes import GATEWAY_CORE, LOAD_CORE, BenchmarkError
from benchmarks.results import RESULTS, load, save
from benchmarks.run import Plan, run
from benchmarks.table import markdown, show


class Sink(StrEnum):
    """Usage sinks to choose from."""

    FILE = "file"
    DATABASE = "database"


def main(
    quick: Annotated[  # noqa: FBT002 - a flag of a command
        bool, typer.Option("--quick", help="The main scenarios, briefly.")
    ] = False,
    peers: Annotated[  # noqa: FBT002 - a flag of a command
        bool, typer.Option("--peers", help="LiteLLM and Portkey too; installs them at first.")
    ] = False,
    bare: Annotated[  # noqa: FBT002 - a flag of a command
        bool, typer.Option("--bare", help="A proxy in Python that only forwards, too.")
    ] = False,
    rounds: Annotated[int | None, typer.Option(min=1, help="3, or 2 with --quick.")] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0.2, help="Of load per measurement: 3, or 1 with --quick.")
    ] = None,
    only: Annotated[str, typer.Option(help="Part of the names of the wanted scenarios.")] = "",
    sink: Annotated[Sink, typer.Option(help="Where the gateway's usage records go.")] = Sink.FILE,
    output: Annotated[Path | None, typer.Option(help="The JSON file of the result.")] = None,
    table_of: Annotated[
        Path | None, typer.Option(help="Print the table of an earlier result as Markdown.")
    ] = None,
) -> None:
    """Measures the gateway beside nginx: medians of interleaved rounds, and ratios."""
    # Whoever ends this with SIGTERM does not want its children to go on.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    console = Console(width=None if sys.stdout.isatty() else 160)
    try:
        if table_of is not None:
            sys.stdout.write(markdown(load(table_of)))
            return
        if not {GATEWAY_CORE, LOAD_CORE} <= os.sched_getaffinity(0):
            raise BenchmarkError(f"cores {GATEWAY_CORE} and {LOAD_CORE} are needed")
        os.sched_setaffinity(0, {LOAD_CORE})
        plan = Plan(
            quick=quick,
            rounds=rounds or (2 if quick else 3),
            seconds=seconds or (1.0 if quick else 3.0),
            peers=peers,
            only=only,
            sink=sink.value,
            bare=bare,
        )
        command = shlex.join(["python", "-m", "benchmarks", *sys.argv[1:]])
        with console.status("") as status:
            report = run(plan, command, status.update)
        path = output or RESULTS / f"{'quick' if quick else 'full'}.json"
        save(report, path)
        show(report, console)
        console.print(f"written to {path}")
    except BenchmarkError as error:
        console.print(f"[red]{error}[/red]")
        raise typer.Exit(1) from error


if __name__ == "__main__":
    typer.run(main)
