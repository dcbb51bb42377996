"""``relay-gateway master-key``: making, rotating and examining the keys that seal credentials."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from relay_gateway.cli.invocation import prepared_of

if TYPE_CHECKING:
    from relay_gateway.control.master_key import BackendKeys
    from relay_gateway.control.rewrap import RewrapReport
    from relay_gateway.server import CatalogAdmin

T = TypeVar("T")
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

app = typer.Typer(help="Make, rotate and examine the master key.", no_args_is_help=True)


@app.command()
def generate() -> None:
    """Print a new master key. Nothing is installed by this."""
    from relay_gateway.cli.output import say
    from relay_gateway.security.master_key import generate_master_key

    say(generate_master_key().reveal())


@app.command()
def status(context: typer.Context, as_json: Json = False) -> None:
    """Show what is sealed with which key; exit code 1 when something is wrong."""
    from relay_gateway.cli.output import complain, say_json, say_table

    states = _with_catalog(context, lambda admin: admin.master_key_status())
    if as_json:
        say_json(_as_json(states))
    else:
        columns = ("backend", "key", "seals", "state", "in RELAY_MASTER_KEY", "can be removed")
        say_table(columns, _rows(states))
        for state in states:
            if state.trouble:
                complain(f"error: {state.backend}: {state.trouble}")
    if any(state.trouble or state.unreadable for state in states):
        raise typer.Exit(1)


@app.command()
def rotate(context: typer.Context, as_json: Json = False) -> None:
    """Seal everything with the first key of RELAY_MASTER_KEY; the others seal nothing from then on.

    Can be broken off and repeated at any time. Exits with 1 when a value could not be sealed anew.
    """
    from relay_gateway.cli.output import complain, say, say_json

    report = _with_catalog(context, lambda admin: admin.rotate_master_key(_show_progress))
    if as_json:
        say_json(_as_json(report))
    else:
        say(f"{report.rewrapped} values sealed anew, {report.failed} could not be")
        for failure in report.failures:
            complain(f"error: {failure.kind} {failure.slug}: {failure.reason}")
    if report.failed:
        raise typer.Exit(1)


@app.command()
def adopt(
    context: typer.Context,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Let the first key of RELAY_MASTER_KEY seal although the keys before it are lost.

    What they seal stays and is of no use until they are back or the credential is written again.
    """
    from relay_gateway.cli.output import say

    if not yes:
        typer.confirm("Are the former master keys lost for good?", abort=True, err=True)
    added = _with_catalog(context, lambda admin: admin.adopt_master_key())
    say(f"adopted {', '.join(added)}" if added else "there is nothing to adopt")


def _with_catalog(context: typer.Context, act: Callable[[CatalogAdmin], Awaitable[T]]) -> T:
    import asyncio

    from relay_gateway.server import open_catalog

    settings = prepared_of(context).settings

    async def run() -> T:
        async with open_catalog(settings) as admin:
            return await act(admin)

    return asyncio.run(run())


def _show_progress(report: RewrapReport) -> None:
    from relay_gateway.cli.output import complain

    complain(f"{report.rewrapped + report.failed} of {report.total}")


def _as_json(value: object) -> object:
    import msgspec

    return msgspec.to_builtins(value)


def _rows(states: list[BackendKeys]) -> Iterator[tuple[object, ...]]:
    for state in states:
        for key in state.keys:
            label = f"{key.key_id} (current)" if key.current else key.key_id
            yield (
                state.backend,
                label,
                key.references,
                key.state,
                "yes" if key.in_ring else "no",
                "yes" if key.removable else "no",
            )
