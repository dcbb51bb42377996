"""``relay-gateway catalog import``: prices and windows from public price lists."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from relay_gateway.cli.invocation import prepared_of
from relay_gateway.cli.plans import Consent, DetailedExitCode, DryRun, Json, Yes

if TYPE_CHECKING:
    import httpx

    from relay_gateway.declarative.catalog import DeclaredCatalog
    from relay_gateway.declarative.plan import Plan
    from relay_gateway.declarative.price_import import ImportRequest
    from relay_gateway.declarative.price_lists import ListedModel
    from relay_gateway.settings import Settings

MAX_BYTES = 64 * 1024 * 1024
CONNECT_SECONDS = 10
TOTAL_SECONDS = 120
_SCHEMES = ("http://", "https://")

Source = Annotated[
    str, typer.Argument(metavar="SOURCE", help="File or http(s) address of the list.")
]
Providers = Annotated[
    list[str] | None,
    typer.Option("--provider", metavar="PATTERN", help="Only these providers; repeatable."),
]
Models = Annotated[
    list[str] | None,
    typer.Option("--model", metavar="PATTERN", help="Only these models; repeatable."),
]
Host = Annotated[
    str | None,
    typer.Option(metavar="SLUG", help="Host that serves them, if not the provider's namesake."),
]
Existing = Annotated[
    bool, typer.Option("--existing", help="Only models that the catalog has already.")
]
Force = Annotated[bool, typer.Option("--force", help="Change what the API or files manage, too.")]

app = typer.Typer(help="The catalog as a whole.", no_args_is_help=True)


@app.callback()
def catalog() -> None:
    """The catalog as a whole."""


@app.command("import")
def import_prices(
    context: typer.Context,
    source: Source,
    provider: Providers = None,
    model: Models = None,
    host: Host = None,
    existing: Existing = False,
    force: Force = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    detailed_exitcode: DetailedExitCode = False,
    as_json: Json = False,
) -> None:
    """Take prices, windows and new models from a public price list, all in one transaction.

    The plan is shown first. What the API or files manage is left as it is. The format is told by
    the shape of the list.
    """
    import asyncio

    from relay_gateway.declarative.price_import import ImportRequest
    from relay_gateway.declarative.price_lists import read_price_list

    listed = read_price_list(_content(source))
    request = ImportRequest(tuple(provider or ()), tuple(model or ()), host, existing, force)
    consent = Consent(dry_run, yes, as_json, detailed_exitcode)
    run = _import(prepared_of(context).settings, listed, request, consent)
    raise typer.Exit(asyncio.run(run))


async def _import(
    settings: Settings, listed: list[ListedModel], request: ImportRequest, consent: Consent
) -> int:
    from relay_gateway.cli.output import complain
    from relay_gateway.cli.plans import MANY, run_plan
    from relay_gateway.server.declarations import open_declared_catalog

    if len(listed) >= MANY:
        complain(f"comparing a list of {len(listed)} models with the catalog")

    async def make(catalog: DeclaredCatalog) -> Plan:
        return await catalog.plan_import(listed, request)

    async with open_declared_catalog(settings) as catalog:
        return await run_plan(catalog, make, consent)


def _content(source: str) -> bytes:
    if source.lower().startswith(_SCHEMES):
        return _fetched(source)
    from relay_gateway.errors import ConfigurationError

    try:
        with Path(source).open("rb") as file:
            content = file.read(MAX_BYTES + 1)
            _check_size(source, content)
            return content
    except OSError as error:
        raise ConfigurationError(f"{source} cannot be read: {error.strerror}") from error


def _fetched(url: str) -> bytes:
    import time

    import httpx

    from relay_gateway.cli.output import complain
    from relay_gateway.errors import ConfigurationError

    complain(f"reading {url}")
    ends = time.monotonic() + TOTAL_SECONDS
    try:
        with httpx.stream("GET", url, timeout=CONNECT_SECONDS, follow_redirects=False) as answer:
            _check_answer(url, answer)
            content = bytearray()
            for chunk in answer.iter_bytes():
                content += chunk
                _check_size(url, content)
                if time.monotonic() > ends:
                    raise ConfigurationError(f"{url} takes longer than {TOTAL_SECONDS} s")
            return bytes(content)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        reason = str(error) or type(error).__name__
        raise ConfigurationError(f"{url} cannot be read: {reason}") from error


def _check_answer(url: str, answer: httpx.Response) -> None:
    from relay_gateway.errors import ConfigurationError

    if answer.is_redirect:
        where = answer.headers.get("location", "elsewhere")
        raise ConfigurationError(f"{url} leads to {where}; give that address if it is meant")
    if answer.status_code != 200:
        raise ConfigurationError(f"{url} answers with {answer.status_code}, not with a list")


def _check_size(source: str, content: bytes | bytearray) -> None:
    from relay_gateway.errors import ConfigurationError

    if len(content) > MAX_BYTES:
        raise ConfigurationError(f"{source} is larger than {MAX_BYTES} bytes, which no list is")
