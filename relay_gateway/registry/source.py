"""Installed entry points: found without importing anything, and whatever shape metadata is in."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, EntryPoint, distributions, entry_points

from relay_gateway.plugin.hookspecs import PROJECT_NAME
from relay_gateway.registry.allowlist import canonical
from relay_gateway.registry.inventory import Origin

UNKNOWN = "-"
logger = logging.getLogger("relay_gateway.registry")


def installed() -> list[EntryPoint]:
    """Entry points of the plugin group, in an order that installation has no part in."""
    try:
        found: Iterable[EntryPoint] = entry_points(group=PROJECT_NAME)
    except Exception:  # noqa: BLE001 - one unreadable distribution, related or not, fails them all
        logger.warning("an installed distribution has broken metadata; reading one by one")
        found = _one_by_one()
    return in_order(found)


def in_order(found: Iterable[EntryPoint]) -> list[EntryPoint]:
    """Entry points of the plugin group by distribution and name."""
    ours = [point for point in found if point.group == PROJECT_NAME]
    return sorted(ours, key=lambda point: (origin(point).distribution, point.name))


def origin(point: EntryPoint) -> Origin:
    """Where an entry point comes from; ``-`` for what its metadata does not tell."""
    try:
        distribution = point.dist
        name = distribution.name if distribution else None
        version = distribution.version if distribution else None
    except Exception:  # noqa: BLE001 - metadata is a file that anybody may have written
        logger.warning("the metadata of the plugin %r cannot be read", point.name)
        name = version = None
    return Origin(point.name, name or UNKNOWN, version or UNKNOWN)


def distribution_of(point: EntryPoint) -> Distribution | None:
    """The distribution of an entry point, where its metadata can be read."""
    try:
        return point.dist
    except Exception:  # noqa: BLE001 - metadata is a file that anybody may have written
        return None


def _one_by_one() -> Iterator[EntryPoint]:
    seen: set[str] = set()
    for distribution in distributions():
        name, found = _read(distribution)
        # The first of its name on the path is the one that an import would find.
        if name not in seen:
            yield from found
        if name:
            seen.add(name)


def _read(distribution: Distribution) -> tuple[str, list[EntryPoint]]:
    try:
        name = canonical(distribution.name)
        return name, list(distribution.entry_points.select(group=PROJECT_NAME))
    except Exception as error:  # noqa: BLE001 - metadata is a file that anybody may have written
        logger.warning("skipped a distribution with broken metadata: %r", error)
        return "", []
