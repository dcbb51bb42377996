"""How commands print: data on standard output, everything else on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence

from relay_gateway.log import escape


def say(text: str = "") -> None:
    """Prints ``text`` as it is, without markup and wrapping, so that it can be copied."""
    print(text, flush=True)  # noqa: T201 - printing is what this module is for


def complain(text: str) -> None:
    """Prints a message for people on standard error."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201


def say_json(value: object) -> None:
    """Prints ``value`` as indented JSON."""
    say(json.dumps(value, indent=2, ensure_ascii=False))


def say_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Prints a table. Cells are text: nothing in them is markup or obeyed by a terminal."""
    # The other ways to print, that of the server among them, need none of this.
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in columns:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row))
    Console(soft_wrap=False).print(table)


def _cell(value: object) -> str:
    return "-" if value is None or value == "" else escape(str(value))
