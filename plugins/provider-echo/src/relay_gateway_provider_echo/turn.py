"""What a request asks for, whichever format it came in."""

from __future__ import annotations

import enum
import re
from typing import Any, TypeVar

import msgspec

from relay_gateway.errors import RequestRefusedError

T = TypeVar("T")

_PLACE = re.compile(r"at `\$\.?([^`]+)`|required field `([^`]+)`")


class ToolUse(enum.Enum):
    """Whether the answer is to be a tool call."""

    NEVER = "never"
    ASKED = "asked"
    """Only if the text says ``!tool``."""
    ALWAYS = "always"


class Tool(msgspec.Struct, frozen=True):
    """A tool that the request offers, with the JSON schema of its arguments."""

    name: str
    schema: dict[str, Any]


class Turn(msgspec.Struct, frozen=True):
    """The turn to be answered.

    ``text`` is what was said last. Directives are obeyed only where it is a user's own words
    (``from_user``) and not, for example, the result of a tool. ``forced`` names the one tool that
    must be called; ``limit`` is the largest number of words to answer.
    """

    text: str
    prompt_tokens: int
    from_user: bool = True
    tools: tuple[Tool, ...] = ()
    tool_use: ToolUse = ToolUse.ASKED
    forced: str | None = None
    limit: int | None = None


def invalid(message: str, param: str | None = None) -> RequestRefusedError:
    """The refusal of a request that is not as the API wants it."""
    return RequestRefusedError(400, "invalid_request", message, param=param)


def decode(body: bytes, model: type[T]) -> T:
    """``body`` as ``model``; raises :class:`RequestRefusedError` (400) that names the field."""
    try:
        return msgspec.json.decode(body, type=model)
    except msgspec.ValidationError as error:
        place = _PLACE.search(str(error))
        raise invalid(f"Invalid body: {error}", place and (place[1] or place[2])) from error
    except (ValueError, RecursionError) as error:
        raise invalid("The body is not valid JSON") from error
