"""The page of the hosts that a new catalog begins with, from the seeds of the providers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from relay_gateway.plugin import CatalogSeed, SeedEntity


def hosts_page(seeds: Iterable[CatalogSeed]) -> Iterator[str]:
    """A table of all seeded hosts, and where the facts come from."""
    kept = [seed for seed in seeds if any(entity.kind == "host" for entity in seed.entities)]
    yield (
        "Written once, to the catalog of a new gateway; from then on they are yours to change. "
        "Where the variable is set at that first start, a host key is made that refers to it. "
        "A disabled host waits for its address: see [Add a compatible host]"
        "(../how-to/add-a-compatible-host.md).\n\n"
        "| host | `baseUrl` | variable | wire formats | `adapterConfig` |\n|---|---|---|---|---|"
    )
    for seed in kept:
        variables = {key.host: key.variable for key in seed.environment_keys}
        for entity in seed.entities:
            if entity.kind == "host":
                yield _row(entity, variables.get(entity.slug))
    yield "\n## Sources\n"
    for seed in kept:
        yield f"* `{seed.name}`, {seed.as_of}: {seed.source}"


def _row(entity: SeedEntity, variable: str | None) -> str:
    spec = entity.spec
    name = f"`{entity.slug}`" + ("" if spec.get("enabled", True) else " (disabled)")
    spoken = ", ".join(f"`{one}`" for one in spec.get("wireFormats", ()))
    config = spec.get("adapterConfig")
    cells = [
        name,
        f"`{spec['baseUrl']}`",
        f"`{variable}`" if variable else ("none needed" if spec.get("noAuth") else "none"),
        spoken or "all of the adapter",
        f"`{json.dumps(config)}`" if config else "",
    ]
    return f"| {' | '.join(cells)} |"
