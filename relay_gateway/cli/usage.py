"""``relay-gateway usage``: totals and repricing; ``tail``: requests as they come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from relay_gateway.cli.invocation import prepared_of
from relay_gateway.cli.reprice import reprice
from relay_gateway.cli.usage_words import Json, costs_of, moment_of, money

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from relay_gateway.plugin import LogQuery, UsageQuery, UsageRecord, UsageRow
    from relay_gateway.server.usage_access import UsageDesk
    from relay_gateway.settings import Settings

Since = Annotated[str, typer.Option("--since", help="How far back: 45m, 24h, 30d.")]
Tags = Annotated[
    list[str] | None, typer.Option("--tag", help="Only records with this tag, as NAME:VALUE.")
]


app = typer.Typer(invoke_without_command=True)


@app.callback()
def usage(
    context: typer.Context,
    since: Since = "30d",
    by: Annotated[
        str,
        typer.Option("--by", help="Dimensions, separated by commas: model, relayKey, tag:team, …"),
    ] = "model",
    as_json: Json = False,
) -> None:
    """Requests, errors, tokens and cost per group, for the time until now."""
    if context.invoked_subcommand is not None:
        return
    import asyncio

    from relay_gateway.cli.output import say, say_json, say_table

    settings = prepared_of(context).settings
    groups = tuple(name.strip() for name in by.split(",") if name.strip())
    rows, desk = asyncio.run(_totals(settings, _totals_query(since, groups)))
    if as_json:
        say_json([_plain(row) for row in rows])
        return
    if not rows:
        say(f"no request within {since}")
        return
    columns = (*groups, "requests", "errors", "input", "output", "cost", "p95 ms")
    say_table(columns, [_cells(row, groups, desk) for row in rows])


app.command()(reprice)


def tail(
    context: typer.Context,
    last: Annotated[
        int, typer.Option("--last", "-n", min=0, max=500, help="Begin with so many that were.")
    ] = 10,
    tag: Tags = None,
    errors: Annotated[bool, typer.Option("--errors", help="Only what did not succeed.")] = False,
    as_json: Json = False,
) -> None:
    """Follow requests live, until interrupted. With ``--json`` one record per line."""
    import asyncio
    import contextlib

    settings = prepared_of(context).settings
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_follow(settings, _tail_query(tag or []), last, errors=errors, as_json=as_json))


async def _totals(settings: Settings, query: UsageQuery) -> tuple[Sequence[UsageRow], UsageDesk]:
    from relay_gateway.server.usage_access import open_usage

    async with open_usage(settings) as desk:
        try:
            return await desk.summarize(query), desk
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error


async def _follow(
    settings: Settings,
    query: LogQuery,
    last: int,
    *,
    errors: bool,
    as_json: bool,
) -> None:
    import msgspec

    from relay_gateway.cli.output import say
    from relay_gateway.server.usage_access import open_usage

    async with open_usage(settings) as desk:
        async for record in desk.follow(query, last):
            if errors and record.outcome == "ok":
                continue
            say(msgspec.json.encode(record).decode() if as_json else format_line(record, desk))


def _totals_query(since: str, groups: tuple[str, ...]) -> UsageQuery:
    from relay_gateway.plugin import LOG_DIMENSIONS, UsageQuery

    for name in groups:
        if name not in LOG_DIMENSIONS and not name.startswith("tag:"):
            known = ", ".join(LOG_DIMENSIONS)
            raise typer.BadParameter(f"{name!r} is no dimension; there are: {known}, tag:NAME")
    return UsageQuery(group_by=groups, start=moment_of(since))


def _tail_query(tags: Sequence[str]) -> LogQuery:
    from relay_gateway.plugin import LogQuery

    wanted: Mapping[str, str] = dict(_tag(text) for text in tags)
    return LogQuery(tags=wanted)


def _tag(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not name or not colon:
        raise typer.BadParameter(f"a tag is written NAME:VALUE, not {text!r}")
    return name, value


def _plain(row: UsageRow) -> object:
    import msgspec

    return msgspec.to_builtins(row)


def _cells(row: UsageRow, groups: Sequence[str], desk: UsageDesk) -> list[object]:
    unpriced = f" ({row.unpriced} unpriced)" if row.unpriced else ""
    p95 = row.duration_ms.get("p95")
    return [
        *(desk.name(row.group.get(name)) for name in groups),
        row.requests,
        row.errors,
        row.tokens.get("input", 0),
        row.tokens.get("output", 0),
        costs_of(row.cost_nanos) + unpriced,
        None if p95 is None else round(p95, 1),
    ]


def format_line(record: UsageRecord, desk: UsageDesk) -> str:
    """A record as one line of a terminal."""
    from relay_gateway.log import escape

    tokens = record.tokens
    cost = money(record.cost_nanos, record.currency or "") if record.cost_nanos else ""
    parts = (
        record.started_at[11:23],
        str(record.status or record.outcome),
        record.requested_model or record.endpoint,
        desk.name(record.relay_key_id),
        desk.name(record.host_id),
        f"{record.duration_ms:.0f} ms",
        f"{tokens.get('input', 0)}+{tokens.get('output', 0)} tokens" if tokens else "",
        cost,
        record.error_code or "",
        record.request_id,
    )
    return "  ".join(escape(part) for part in parts if part)
