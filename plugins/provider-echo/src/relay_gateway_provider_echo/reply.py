"""What is answered: the same to the same request, always."""

from __future__ import annotations

import enum
import hashlib
from typing import Any

import msgspec

from relay_gateway_provider_echo.directives import Script, ToolWish, tool_wish_of
from relay_gateway_provider_echo.turn import Tool, ToolUse, Turn, invalid
from relay_gateway_provider_echo.words import pieces_of

PREFIX = "echo: "
MAX_SCHEMA_DEPTH = 8


class Finish(enum.Enum):
    """Why an answer ends."""

    STOP = "stop"
    LENGTH = "length"
    TOOL = "tool"


class Reply(msgspec.Struct, frozen=True):
    """An answer before it has a format.

    ``pieces`` join to the text, or to the JSON of the arguments where ``tool`` names a tool.
    ``key`` is what ids are made of, ``created`` seconds since the epoch.
    """

    pieces: tuple[str, ...]
    finish: Finish
    prompt_tokens: int
    model: str
    key: str
    created: int
    tool: str | None = None

    @property
    def text(self) -> str:
        """All pieces together."""
        return "".join(self.pieces)

    @property
    def completion_tokens(self) -> int:
        """One for each piece."""
        return len(self.pieces)


def compose(turn: Turn, script: Script, *, model: str, body: bytes, created: int) -> Reply:
    """The reply to ``turn``; raises ``RequestRefusedError`` (400) for a tool that is not there."""
    wish = _tool_wish(turn)
    if wish is not None:
        pieces, finish = pieces_of(msgspec.json.encode(wish.arguments).decode()), Finish.TOOL
    else:
        pieces, finish = _limited(pieces_of(_text(turn, script)), turn.limit)
    return Reply(
        pieces=pieces,
        finish=finish,
        prompt_tokens=turn.prompt_tokens,
        model=model,
        key=hashlib.sha256(body).hexdigest()[:24],
        created=created,
        tool=None if wish is None else wish.name,
    )


def _text(turn: Turn, script: Script) -> str:
    if script.text is not None:
        return script.text
    if script.words is not None:
        return " ".join(f"word-{number}" for number in range(1, script.words + 1))
    return PREFIX + turn.text


def _limited(pieces: tuple[str, ...], limit: int | None) -> tuple[tuple[str, ...], Finish]:
    if limit is None or len(pieces) <= limit:
        return pieces, Finish.STOP
    return pieces[:limit], Finish.LENGTH


def _tool_wish(turn: Turn) -> ToolWish | None:
    """The tool to call, with its arguments, or ``None`` for an answer in words."""
    if turn.tool_use is ToolUse.NEVER:
        return None
    wish = tool_wish_of(turn)
    if turn.tool_use is ToolUse.ALWAYS and (wish is None or turn.forced not in (None, wish.name)):
        wish = ToolWish(_forced(turn).name)
    if wish is None or wish.arguments is not None:
        return wish
    schema = next(tool.schema for tool in turn.tools if tool.name == wish.name)
    arguments = sample(schema, turn.text)
    return ToolWish(wish.name, arguments if isinstance(arguments, dict) else {})


def _forced(turn: Turn) -> Tool:
    for tool in turn.tools:
        if turn.forced in (None, tool.name):
            return tool
    wanted = "a tool" if turn.forced is None else f"the tool {turn.forced!r}"
    raise invalid(f"tool_choice wants {wanted}, which the request does not offer", "tool_choice")


def sample(schema: object, text: str, depth: int = MAX_SCHEMA_DEPTH) -> Any:
    """A value that fits the required part of a simple JSON schema; strings are ``text``."""
    if not isinstance(schema, dict) or depth == 0:
        return text
    options = schema.get("enum")
    if isinstance(options, list) and options:
        return options[0]
    properties = schema.get("properties")
    if isinstance(properties, dict):
        required = schema.get("required")
        names = required if isinstance(required, list) else []
        return {
            name: sample(inner, text, depth - 1)
            for name, inner in properties.items()
            if name in names
        }
    made: dict[object, Any] = {
        "object": {},
        "array": [],
        "integer": 0,
        "number": 0,
        "boolean": True,
        "null": None,
    }
    kind = schema.get("type")
    return made.get(kind, text) if isinstance(kind, str) else text
