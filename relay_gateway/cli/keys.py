"""``relay-gateway keys``: relay keys of the catalog, without going through the control plane."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from relay_gateway.cli.duration import parse_duration
from relay_gateway.cli.invocation import prepared_of

if TYPE_CHECKING:
    from relay_gateway.catalog.envelope import EntityRow
    from relay_gateway.secret import Secret
    from relay_gateway.server import CatalogAdmin

T = TypeVar("T")
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Reference = Annotated[str, typer.Argument(help="Slug or id of the relay key.")]

app = typer.Typer(help="Create, list, rotate and revoke relay keys.", no_args_is_help=True)


@app.command()
def create(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="What the key is for, for example an application.")],
    policy: Annotated[str, typer.Option(help="Slug or id of its policy.")] = "default",
    expires: Annotated[
        int | None,
        typer.Option(parser=parse_duration, metavar="DURATION", help="Valid for, such as 30d."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Create a relay key and print it, once."""
    from datetime import UTC, datetime, timedelta

    expires_at = None if expires is None else datetime.now(UTC) + timedelta(seconds=expires)
    plaintext, row = _with_catalog(
        context, lambda admin: admin.create_relay_key(name, policy, expires_at)
    )
    _show_new(plaintext, row, as_json=as_json)


@app.command()
def rotate(
    context: typer.Context,
    ref: Reference,
    grace: Annotated[
        int,
        typer.Option(
            parser=parse_duration, metavar="DURATION", help="How long the old key stays valid."
        ),
    ] = "0s",  # type: ignore[assignment]  # typer parses defaults, too
    as_json: Json = False,
) -> None:
    """Replace the key behind REF and print the new one, once."""
    plaintext, row = _with_catalog(context, lambda admin: admin.rotate_relay_key(ref, grace))
    _show_new(plaintext, row, as_json=as_json)


@app.command()
def revoke(context: typer.Context, ref: Reference, as_json: Json = False) -> None:
    """End a relay key at once and for good."""
    from relay_gateway.cli.output import say, say_json

    row = _with_catalog(context, lambda admin: admin.revoke_relay_key(ref))
    if as_json:
        say_json(_as_json(row))
    else:
        say(f"revoked {row.slug} ({row.spec.get('prefix')}…)")


@app.command("list")
def list_keys(context: typer.Context, as_json: Json = False) -> None:
    """List the relay keys; never shows one."""
    from relay_gateway.cli.output import say_json, say_table

    rows = _with_catalog(context, lambda admin: admin.relay_keys())
    if as_json:
        say_json([_as_json(row) for row in rows])
        return
    columns = ("slug", "name", "prefix", "expires", "state")
    say_table(columns, (_cells(row) for row in rows))


def _with_catalog(context: typer.Context, act: Callable[[CatalogAdmin], Awaitable[T]]) -> T:
    import asyncio

    from relay_gateway.server import open_catalog

    settings = prepared_of(context).settings

    async def run() -> T:
        async with open_catalog(settings) as admin:
            return await act(admin)

    return asyncio.run(run())


def _show_new(plaintext: Secret, row: EntityRow, *, as_json: bool) -> None:
    from relay_gateway.cli.output import complain, say, say_json

    if as_json:
        say_json({"plaintext": plaintext.reveal(), "relayKey": _as_json(row)})
        return
    say(plaintext.reveal())
    complain(f"This is the key of {row.slug}. It is not shown again: store it now.")


def _as_json(row: EntityRow) -> dict[str, Any]:
    metadata = {
        "id": row.id,
        "slug": row.slug,
        "displayName": row.display_name,
        "version": row.version,
        "createdAt": row.created_at,
        "updatedAt": row.updated_at,
    }
    return {"metadata": metadata, "spec": row.spec}


def _cells(row: EntityRow) -> tuple[object, ...]:
    spec = row.spec
    return (row.slug, row.display_name, spec.get("prefix"), spec.get("expiresAt"), _state(spec))


def _state(spec: dict[str, Any]) -> str:
    from datetime import UTC, datetime

    if spec.get("revokedAt"):
        return "revoked"
    expires = spec.get("expiresAt")
    if expires and datetime.fromisoformat(expires) <= datetime.now(UTC):
        return "expired"
    return "active" if spec.get("enabled", True) else "disabled"
