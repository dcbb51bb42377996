"""``relay-gateway doctor``: what is in order, what is not, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from relay_gateway.cli.invocation import prepared_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from relay_gateway.server import Finding
    from relay_gateway.settings import Settings


def doctor(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check configuration, database, plugins, host keys and hosts; exit code 1 when something is
    wrong. Hosts that requests can be sent to are really asked, for something that costs nothing; a
    gateway that runs with this configuration is asked which host keys it leaves out right now, and
    which gateways on its database are silent or behind."""
    import asyncio

    from relay_gateway.cli.output import say_json, say_table

    findings = asyncio.run(_findings(prepared_of(context).settings))
    if as_json:
        say_json([{"name": item.name, "ok": item.ok, "detail": item.detail} for item in findings])
    else:
        rows = [("ok" if item.ok else "WRONG", item.name, item.detail) for item in findings]
        say_table(("state", "checked", "result"), rows)
    if not all(finding.ok for finding in findings):
        raise typer.Exit(1)


async def _findings(settings: Settings) -> Sequence[Finding]:
    from relay_gateway.server import open_catalog
    from relay_gateway.server.running import check_running

    async with open_catalog(settings) as admin:
        return [*await admin.check(), *await check_running(settings)]
