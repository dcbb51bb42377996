"""``relay-gateway usage reprice``: stored requests at the prices of today."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from relay_gateway.cli.invocation import prepared_of
from relay_gateway.cli.usage_words import Json, costs_of, moment_of

if TYPE_CHECKING:
    from relay_gateway.server.repricing import RepricedModel, Repricing
    from relay_gateway.server.usage_access import UsageDesk
    from relay_gateway.settings import Settings

COLUMNS = ("model", "records", "changed", "before", "after", "unpriced", "no sheet")
PROGRESS_RECORDS = 20_000


def reprice(
    context: typer.Context,
    since: Annotated[str, typer.Option("--since", help="How far back: 45m, 24h, 30d.")],
    apply: Annotated[
        bool, typer.Option("--apply", help="Correct the stored records; else only show.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Recompute what requests cost by the price sheets of today, and say what changes.

    A request is priced by the sheet that its model has at the host that answered it, else by the
    sheet that it was priced by before. What budgets have counted stays as it is.
    """
    import asyncio

    settings = prepared_of(context).settings
    asyncio.run(_reprice(settings, moment_of(since), apply=apply, as_json=as_json))


async def _reprice(settings: Settings, start: str, *, apply: bool, as_json: bool) -> None:
    from relay_gateway.plugin import LogQuery
    from relay_gateway.server.repricing import reprice as run
    from relay_gateway.server.usage_access import open_usage

    async with open_usage(settings) as desk:
        if apply:
            desk.check_corrects()
        found = await run(
            desk.reader, desk.sheets(), LogQuery(start=start), apply=apply, progress=_progress
        )
        _show(found, desk, apply=apply, as_json=as_json)


def _progress(records: int) -> None:
    from relay_gateway.cli.output import complain

    if records % PROGRESS_RECORDS == 0:
        complain(f"{records} records so far")


def _show(found: Repricing, desk: UsageDesk, *, apply: bool, as_json: bool) -> None:
    import msgspec

    from relay_gateway.cli.output import say, say_json, say_table

    for model in found.models:
        model.model = desk.name(model.model) or None
    if as_json:
        say_json(msgspec.to_builtins(found))
        return
    found.total.model = "total"
    say_table(COLUMNS, [_cells(model) for model in (*found.models, found.total)])
    if apply:
        say(f"{found.corrected} records corrected")
    elif found.total.changed:
        say(f"{found.total.changed} records would change; --apply corrects them")


def _cells(model: RepricedModel) -> list[object]:
    before, after = model.unpriced_before, model.unpriced_after
    return [
        model.model,
        model.records,
        model.changed,
        costs_of(model.cost_before),
        costs_of(model.cost_after),
        f"{before} → {after}" if before != after else before,
        model.without_sheet,
    ]
