"""Durations as people type them: ``45s``, ``90m``, ``12h``, ``30d``."""

from __future__ import annotations

import re

import typer

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_FORM = re.compile(r"([0-9]{1,6})([smhd])")


def parse_duration(text: str) -> int:
    """``text`` in seconds. Raises :class:`typer.BadParameter` for what has no such form."""
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise typer.BadParameter(f"{text!r} is not a duration; write for example 45s, 12h or 30d")
    return int(match[1]) * _UNITS[match[2]]
