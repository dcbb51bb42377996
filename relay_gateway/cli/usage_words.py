"""What the commands about usage share: options, times and amounts of money in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer

NANOS = 10**9

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def moment_of(since: str) -> str:
    """The time so long ago, in RFC 3339 UTC. Raises :class:`typer.BadParameter`."""
    from datetime import UTC, datetime, timedelta

    from relay_gateway.cli.duration import parse_duration

    begin = datetime.now(UTC) - timedelta(seconds=parse_duration(since))
    return begin.isoformat(timespec="microseconds").replace("+00:00", "Z")


def money(nanos: int, currency: str) -> str:
    """An amount in units of its currency, exactly."""
    units, rest = divmod(nanos, NANOS)
    return f"{units}.{rest:09d}".rstrip("0").rstrip(".") + f" {currency}"


def costs_of(nanos_by_currency: Mapping[str, int]) -> str:
    """Amounts of several currencies, ``0`` without any."""
    return " + ".join(money(nanos, name) for name, nanos in nanos_by_currency.items()) or "0"
