"""``Finding``: what ``relay-gateway doctor`` says about one thing."""

from __future__ import annotations

import msgspec


class Finding(msgspec.Struct, frozen=True):
    """One thing that was checked, and what was found."""

    name: str
    ok: bool
    detail: str
