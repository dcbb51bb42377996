"""``relay-gateway audit``: whether the audit log is whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from relay_gateway.cli.invocation import prepared_of

if TYPE_CHECKING:
    from relay_gateway.settings import Settings
    from relay_gateway.storage.audit import ChainReport

app = typer.Typer(help="The audit log.", no_args_is_help=True)


@app.callback()
def audit() -> None:
    """The audit log."""


@app.command()
def verify(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Read the whole audit log and tell whether a record was changed, added or taken away.

    Exits with 1 when one was, naming the first.
    """
    import asyncio

    from relay_gateway.cli.output import complain, say, say_json

    report = asyncio.run(_verify(prepared_of(context).settings))
    if as_json:
        shown = {"records": report.records, "pruned": report.pruned, "problem": report.problem}
        say_json(shown)
    elif report.problem is None:
        pruned = f", after {report.pruned} that were pruned" if report.pruned else ""
        say(f"the audit log is whole: {report.records} records{pruned}")
    else:
        complain(f"error: {report.problem}")
    raise typer.Exit(0 if report.problem is None else 1)


async def _verify(settings: Settings) -> ChainReport:
    from relay_gateway.server.audit_upkeep import checkpoint_signer
    from relay_gateway.storage import AuditLog, create_engine

    engine = create_engine(settings.database_url)
    try:
        return await AuditLog(engine).verify(checkpoint_signer(settings.master_key).accepts)
    finally:
        await engine.dispose()
