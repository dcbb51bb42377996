"""``relay-gateway plugins``: what is installed and what became of it."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from relay_gateway.cli.invocation import settings_of

if TYPE_CHECKING:
    from rich.table import Table

    from relay_gateway.registry import PluginInfo

app = typer.Typer(help="See which plugins are installed and usable.", no_args_is_help=True)


@app.callback()
def plugins() -> None:
    """See which plugins are installed and usable."""


@app.command("list")
def list_plugins(
    context: typer.Context,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show the traceback of each error too.")
    ] = False,
) -> None:
    """List every installed plugin with its state; a broken one with the reason.

    Nothing is opened and no section is checked: `doctor` and `config check` do that. The exit code
    is 0 also when plugins are quarantined.
    """
    from relay_gateway.cli.output import say_json

    inventory = _inventory(settings_of(context).plugins.enabled)
    if as_json:
        say_json([_as_json(info, verbose=verbose) for info in inventory])
    else:
        _print(inventory, verbose=verbose)


def _inventory(enabled: Sequence[str] | None) -> list[PluginInfo]:
    from relay_gateway.registry import Registry

    # What the registry would log is what the list shows.
    logging.getLogger("relay_gateway.registry").addHandler(logging.NullHandler())
    # A plugin that prints while it is imported must not get into the answer.
    with contextlib.redirect_stdout(sys.stderr):
        return Registry.discover(enabled=enabled).inventory()


def _as_json(info: PluginInfo, *, verbose: bool) -> dict[str, object]:
    line = asdict(info)
    if not verbose:
        del line["traceback"]
    return line


def _print(inventory: Sequence[PluginInfo], *, verbose: bool) -> None:
    from rich.console import Console

    from relay_gateway.cli.output import say
    from relay_gateway.log import escape

    if not inventory:
        say("no plugin is installed")
        return
    Console(soft_wrap=False).print(_table(inventory))
    for info in inventory:
        if info.error is not None:
            say(f"\n{escape(info.name)} ({escape(info.distribution)}): {escape(info.error)}")
        if verbose and info.traceback is not None:
            for line in info.traceback.splitlines():
                say(f"    {escape(line)}")


def _table(inventory: Sequence[PluginInfo]) -> Table:
    """Without errors: a sentence in a sixth column would leave none of them room on 80 columns."""
    from rich.table import Table
    from rich.text import Text

    from relay_gateway.log import escape

    table = Table(box=None, pad_edge=False, collapse_padding=True, header_style="bold")
    for heading in ("name", "kind", "distribution", "version", "state"):
        # On a narrow terminal the kinds, which are two words, are what is wrapped.
        table.add_column(heading, no_wrap=heading != "kind", overflow="fold")
    for info in inventory:
        row = (info.name, info.kind, info.distribution, info.version, info.state)
        table.add_row(*(Text(escape(cell)) for cell in row))
    return table
