"""What a secret backend found: a credential with its facts."""

from __future__ import annotations

from dataclasses import dataclass

from relay_gateway.secret import Secret


@dataclass(frozen=True, slots=True, eq=False)
class ResolvedSecret:
    """A credential with its facts. ``ttl`` is in seconds; ``None`` leaves it to the gateway's
    default."""

    value: Secret
    ttl: float | None = None
    version: str | None = None
