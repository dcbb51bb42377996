"""Directives: ``!echo {json}`` scripts the answer, ``!tool name {json}`` calls a tool."""

from __future__ import annotations

import re
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from relay_gateway_provider_echo.turn import Turn, invalid

_ECHO = re.compile(r"\s*!echo(?![\w-])(.*)", re.DOTALL)
_TOOL = re.compile(r"\s*!tool(?![\w-])\s*(\S*)(.*)", re.DOTALL)

MAX_DELAY_MS = 600_000
MAX_WORDS = 100_000


class Script(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The JSON of ``!echo``; all of it optional. ``retryAfter`` is in seconds."""

    status: Annotated[int, Meta(ge=300, le=599)] | None = None
    retry_after: Annotated[float, Meta(ge=0)] | None = None
    message: str | None = None
    break_after: Annotated[int, Meta(ge=0)] | None = None
    delay_ms: Annotated[int, Meta(ge=0, le=MAX_DELAY_MS)] = 0
    text: str | None = None
    words: Annotated[int, Meta(ge=0, le=MAX_WORDS)] | None = None


class ToolWish(msgspec.Struct, frozen=True):
    """What ``!tool`` asks for; no ``arguments`` means that they are made up."""

    name: str
    arguments: dict[str, Any] | None = None


_DEFAULT = Script()


def script_of(turn: Turn) -> Script:
    """What ``!echo`` at the beginning of the text says; raises ``RequestRefusedError`` (400)."""
    found = _ECHO.fullmatch(turn.text) if turn.from_user else None
    if found is None:
        return _DEFAULT
    try:
        return msgspec.json.decode(found[1].strip(), type=Script)
    except (ValueError, RecursionError) as error:
        raise invalid(f"'!echo' wants one JSON object after it: {error}") from error


def tool_wish_of(turn: Turn) -> ToolWish | None:
    """What ``!tool`` at the beginning of the text says; raises ``RequestRefusedError`` (400)."""
    found = _TOOL.fullmatch(turn.text) if turn.from_user else None
    if found is None:
        return None
    name, rest = found[1], found[2].strip()
    offered = [tool.name for tool in turn.tools]
    if name not in offered:
        listed = ", ".join(offered) or "none"
        raise invalid(f"'!tool' asks for the tool {name!r}; the request offers: {listed}")
    try:
        arguments = msgspec.json.decode(rest, type=dict[str, Any]) if rest else None
    except (ValueError, RecursionError) as error:
        raise invalid(f"'!tool {name}' wants one JSON object after it: {error}") from error
    return ToolWish(name, arguments)
