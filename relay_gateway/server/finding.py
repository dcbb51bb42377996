"""``Finding``: what ``relay-gateway doctor`` says about one thing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was checked, and what was found."""

    name: str
    ok: bool
    detail: str
