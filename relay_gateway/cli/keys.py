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
    from relay_gateway.server import KnownRelayKey
    from relay_gateway.server.relay_key_admin import RelayKeyAdmin

T = TypeVar("T")
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Reference = Annotated[str, typer.Argument(help="Slug or id of the relay key.")]

app = typer.Typer(help="Create, list, show, rotate and revoke relay keys.", no_args_is_help=True)


@app.command()
def create(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="What the key is for, for example an application.")],
    policy: Annotated[str, typer.Option(help="Slug or id of its policy.")] = "default",
    description: Annotated[str, typer.Option(help="More about it.")] = "",
    expires: Annotated[
        int | None,
        typer.Option(parser=parse_duration, metavar="DURATION", help="Valid for, such as 30d."),
    ] = None,
    cidr: Annotated[
        list[str] | None,
        typer.Option(metavar="CIDR", help="Network it may be used from; repeatable."),
    ] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Tag of its usage records; repeatable."),
    ] = None,
    rate_limit: Annotated[
        list[str] | None, typer.Option(metavar="REF", help="Slug or id; repeatable.")
    ] = None,
    payload_logging: Annotated[
        bool, typer.Option("--payload-logging", help="Opt in to payload logging.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Create a relay key and print it, once."""
    from datetime import UTC, datetime, timedelta

    from relay_gateway.server import RelayKeyOrder

    order = RelayKeyOrder(
        name=name,
        policy=policy,
        description=description,
        expires_at=None if expires is None else datetime.now(UTC) + timedelta(seconds=expires),
        allowed_cidrs=cidr or (),
        tags=dict(_tag(text) for text in tag or ()),
        rate_limits=rate_limit or (),
        payload_logging=payload_logging,
    )
    plaintext, row = _with_keys(context, lambda keys: keys.create(order))
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
    plaintext, row = _with_keys(context, lambda keys: keys.rotate(ref, grace))
    _show_new(plaintext, row, as_json=as_json)


@app.command()
def revoke(context: typer.Context, ref: Reference, as_json: Json = False) -> None:
    """End a relay key at once and for good."""
    from relay_gateway.cli.output import say, say_json

    row = _with_keys(context, lambda keys: keys.revoke(ref))
    if as_json:
        say_json(_as_json(row))
    else:
        say(f"revoked {row.slug} ({row.spec.get('prefix')}…)")


@app.command("list")
def list_keys(
    context: typer.Context,
    policy: Annotated[str | None, typer.Option(help="Only those of this policy.")] = None,
    as_json: Json = False,
) -> None:
    """List the relay keys; never shows one."""
    from relay_gateway.cli.output import say_json, say_table

    known = _with_keys(context, lambda keys: keys.list(policy))
    if as_json:
        say_json([_known_as_json(one) for one in known])
        return
    columns = ("slug", "name", "prefix", "expires", "last used", "state")
    say_table(columns, (_cells(one) for one in known))


@app.command()
def show(context: typer.Context, ref: Reference, as_json: Json = False) -> None:
    """Show everything about a relay key but the key itself."""
    from relay_gateway.cli.output import say_json, say_table

    known = _with_keys(context, lambda keys: keys.find(ref))
    if as_json:
        say_json(_known_as_json(known))
        return
    row = known.row
    facts = {
        "slug": row.slug,
        "id": row.id,
        "name": row.display_name,
        "description": row.description,
        "state": _state(row.spec),
        "created": row.created_at,
        "last used": known.last_used_at,
        **{name: _shown(value) for name, value in sorted(row.spec.items())},
    }
    say_table(("field", "value"), facts.items())


def _with_keys(context: typer.Context, act: Callable[[RelayKeyAdmin], Awaitable[T]]) -> T:
    import asyncio

    from relay_gateway.server import open_catalog

    settings = prepared_of(context).settings

    async def run() -> T:
        async with open_catalog(settings) as admin:
            return await act(admin.relay_keys)

    return asyncio.run(run())


def _tag(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not (name and separator):
        raise typer.BadParameter(f"{text!r} is not a tag; write NAME=VALUE", param_hint="--tag")
    return name, value


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
        "description": row.description,
        "labels": row.labels,
        "managedBy": row.managed_by,
        "version": row.version,
        "createdAt": row.created_at,
        "updatedAt": row.updated_at,
    }
    return {"metadata": metadata, "spec": row.spec}


def _known_as_json(known: KnownRelayKey) -> dict[str, Any]:
    return {**_as_json(known.row), "status": {"lastUsedAt": known.last_used_at}}


def _cells(known: KnownRelayKey) -> tuple[object, ...]:
    row, spec = known.row, known.row.spec
    expires, prefix = spec.get("expiresAt"), spec.get("prefix")
    return (row.slug, row.display_name, prefix, expires, known.last_used_at, _state(spec))


def _shown(value: object) -> object:
    if isinstance(value, dict):
        return ", ".join(f"{name}={item}" for name, item in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else value


def _state(spec: dict[str, Any]) -> str:
    from datetime import UTC, datetime

    if spec.get("revokedAt"):
        return "revoked"
    expires = spec.get("expiresAt")
    if expires and datetime.fromisoformat(expires) <= datetime.now(UTC):
        return "expired"
    return "active" if spec.get("enabled", True) else "disabled"
