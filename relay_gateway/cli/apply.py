"""``relay-gateway apply``: the catalog made as manifests declare it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from relay_gateway.cli.invocation import prepared_of
from relay_gateway.cli.plans import Consent, DetailedExitCode, DryRun, Json, Yes

if TYPE_CHECKING:
    from relay_gateway.declarative.catalog import DeclaredCatalog
    from relay_gateway.declarative.manifests import Manifest
    from relay_gateway.declarative.plan import Plan
    from relay_gateway.declarative.selector import Selector
    from relay_gateway.settings import Settings

Files = Annotated[
    list[str],
    typer.Option(
        "--file", "-f", metavar="FILE|DIR", help="Manifests in YAML; repeatable, - reads them."
    ),
]
Prune = Annotated[
    bool,
    typer.Option(
        "--prune", help="Delete what files manage, --selector selects and none of them declares."
    ),
]
Selectors = Annotated[
    list[str] | None,
    typer.Option("--selector", "-l", metavar="NAME=VALUE", help="Labels of what --prune may take."),
]
Rebind = Annotated[
    bool,
    typer.Option(
        "--confirm-rebind", help="Host keys that are there may be sent to other addresses."
    ),
]
NoSeeds = Annotated[
    bool,
    typer.Option("--no-seeds", help="Do not first fill an empty catalog with what plugins ship."),
]


def apply(
    context: typer.Context,
    files: Files,
    prune: Prune = False,
    selector: Selectors = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    confirm_rebind: Rebind = False,
    no_seeds: NoSeeds = False,
    detailed_exitcode: DetailedExitCode = False,
    as_json: Json = False,
) -> None:
    """Make the catalog as manifests declare it: all of it in one transaction, or nothing.

    The plan is shown first. Exits with 0 when the catalog is as declared, with 1 when something is
    wrong or the answer was no, with 2 for wrong usage, and with `--detailed-exitcode` with 3 when
    something had to be changed.
    """
    import asyncio

    from relay_gateway.declarative.manifests import STANDARD_INPUT, read_manifests
    from relay_gateway.declarative.selector import parse_selector
    from relay_gateway.errors import ConfigurationError

    if prune != bool(selector):
        raise ConfigurationError(
            "--prune and --selector go together: without labels, everything that files ever "
            "declared could be deleted"
        )
    chosen = parse_selector(selector or []) if prune else None
    manifests = read_manifests(files)
    asking = STANDARD_INPUT not in files
    consent = Consent(dry_run, yes, as_json, detailed_exitcode, asking=asking)
    settings = prepared_of(context).settings
    run = _apply(settings, manifests, chosen, consent, rebind=confirm_rebind, seeded=not no_seeds)
    raise typer.Exit(asyncio.run(run))


async def _apply(
    settings: Settings,
    manifests: list[Manifest],
    prune: Selector | None,
    consent: Consent,
    *,
    rebind: bool,
    seeded: bool,
) -> int:
    from relay_gateway.cli.output import complain
    from relay_gateway.cli.plans import MANY, run_plan
    from relay_gateway.server.declarations import open_declared_catalog

    if len(manifests) >= MANY:
        complain(f"comparing {len(manifests)} manifests with the catalog")

    async def make(catalog: DeclaredCatalog) -> Plan:
        return await catalog.plan(manifests, prune, rebind=rebind)

    async with open_declared_catalog(settings, seeded=seeded) as catalog:
        return await run_plan(catalog, make, consent)
