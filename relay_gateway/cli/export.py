"""``relay-gateway export``: the catalog as manifests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from relay_gateway.cli.invocation import prepared_of

if TYPE_CHECKING:
    from relay_gateway.declarative.catalog import ExportRequest
    from relay_gateway.settings import Settings

Kinds = Annotated[
    list[str] | None,
    typer.Option("--kind", "-k", metavar="KIND", help="Only this kind, as host-key; repeatable."),
]
Selectors = Annotated[
    list[str] | None,
    typer.Option("--selector", "-l", metavar="NAME=VALUE", help="Only what has these labels."),
]
Adopt = Annotated[
    bool,
    typer.Option("--adopt", help="Leave out who manages an entity: applied, files will."),
]
Digests = Annotated[
    bool,
    typer.Option(
        "--with-digests", help="With the digests of relay keys, to keep them valid elsewhere."
    ),
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write there, readable by nobody else."),
]


def export(
    context: typer.Context,
    kind: Kinds = None,
    selector: Selectors = None,
    adopt: Adopt = False,
    with_digests: Digests = False,
    output: Output = None,
) -> None:
    """Print the catalog as manifests that `apply` takes, without any secret."""
    import asyncio

    from relay_gateway.cli.output import say
    from relay_gateway.declarative.catalog import ExportRequest
    from relay_gateway.declarative.selector import parse_selector

    request = ExportRequest(
        kinds=frozenset(_kind(name) for name in kind or ()),
        selector=parse_selector(selector or []),
        adopt=adopt,
        digests=with_digests,
    )
    text = asyncio.run(_export(prepared_of(context).settings, request))
    if output is None:
        say(text.removesuffix("\n"))
    else:
        _write(output, text)


def _kind(name: str) -> str:
    from relay_gateway.catalog.kinds import KINDS
    from relay_gateway.declarative.manifests import hyphenated
    from relay_gateway.errors import ConfigurationError

    kind = name.replace("-", " ")
    if kind not in KINDS:
        kinds = ", ".join(map(hyphenated, KINDS))
        raise ConfigurationError(f"--kind {name!r} is none of {kinds}")
    return kind


def _write(path: Path, text: str) -> None:
    import os

    from relay_gateway.errors import ConfigurationError

    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    try:
        with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}") from error


async def _export(settings: Settings, request: ExportRequest) -> str:
    from relay_gateway.declarative.yaml_text import write_documents
    from relay_gateway.server.declarations import open_declared_catalog

    async with open_declared_catalog(settings) as catalog:
        return write_documents(await catalog.export(request))
