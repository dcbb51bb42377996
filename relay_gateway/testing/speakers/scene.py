"""What a speaking upstream hears and says, apart from any wire format.

The last words of the user decide: offered tools are called once, results are repeated, pictures and
thoughts are spoken of, and directives (``fail 429``, ``cut``) make it misbehave.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

SIGNATURE = "++++IHNpZ25lZA=="
"""With which every speaker signs its thoughts; it has characters that URLs cannot carry."""
THOUGHT = "Let me think."
GREETING = "Grüezi — there"
ARGUMENTS: Mapping[str, Mapping[str, object]] = {
    "get_weather": {"city": "Zürich", "days": [1, {"deep": True}]},
    "get_time": {"zone": "CET"},
}
"""What these tools get called with where they are offered; others with what fits their schema."""
FIGURES = {"input": 20, "cached": 5, "output": 9, "reasoning": 3}
"""The tokens of every answer; ``input`` includes what was cached, ``output`` the reasoning."""

_FAIL = re.compile(r"fail (\d{3})")
_DIRECTIVE = re.compile(r"\b(cut|reset|hang|late error|empty|comments|error first|html)\b")


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as a model would see it.

    ``tools`` are schemas by name, ``results`` what tools gave since the assistant spoke last,
    ``media`` the kinds of pictures and documents in the last turn, ``signatures`` what came back of
    its own.
    """

    text: str
    model: str = ""
    streamed: bool = False
    usage_wanted: bool = True
    tools: Mapping[str, Any] = field(default_factory=dict)
    results: tuple[str, ...] = ()
    media: tuple[str, ...] = ()
    signatures: tuple[str, ...] = ()
    schema: Mapping[str, Any] | None = None

    @property
    def failure(self) -> int | None:
        """The status that the user wants to see."""
        found = _FAIL.search(self.text)
        return int(found[1]) if found else None

    @property
    def directive(self) -> str:
        """How a stream is to misbehave, empty for not at all."""
        found = _DIRECTIVE.search(self.text)
        return found[1] if found else ""


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call; ``arguments`` is JSON text."""

    id: str
    name: str
    arguments: str

    @property
    def pieces(self) -> list[str]:
        """The arguments as a stream has them."""
        return list(cut(self.arguments, 7))


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: thought first, then text, then calls. ``stop`` is ``end``, ``length`` or
    ``tools``."""

    text: str = ""
    thought: str = ""
    calls: tuple[Call, ...] = field(default=())
    stop: str = "end"


def reply_to(asked: Asked) -> Reply:
    """What every speaker says to ``asked``."""
    thought = THOUGHT if "think" in asked.text else ""
    if asked.results:
        signed = f" Signed {', '.join(asked.signatures)}." if asked.signatures else ""
        return Reply(f"Tools say: {'; '.join(asked.results)}.{signed}")
    if asked.tools:
        return Reply(thought=thought, calls=tuple(_calls(asked.tools)), stop="tools")
    if asked.schema is not None:
        return Reply(json.dumps(_instance(asked.schema)), thought)
    if asked.media:
        return Reply(f"I see {', '.join(asked.media)}.", thought)
    if "long" in asked.text:
        return Reply("Once upon a", thought, stop="length")
    return Reply(GREETING, thought)


def _calls(tools: Mapping[str, Any]) -> Iterator[Call]:
    for number, (name, schema) in enumerate(tools.items(), 1):
        arguments = ARGUMENTS.get(name) or _instance(schema or {"type": "object"})
        yield Call(f"call_{number}", name, json.dumps(arguments, ensure_ascii=False))


def _instance(schema: Mapping[str, Any]) -> object:
    """Something that fits a simple schema."""
    kind = schema.get("type")
    if kind == "object":
        return {name: _instance(inner) for name, inner in schema.get("properties", {}).items()}
    return {"integer": 21, "number": 21.5, "boolean": True}.get(str(kind), "Bern")


def cut(text: str, length: int) -> Iterator[str]:
    """``text`` in pieces."""
    return (text[start : start + length] for start in range(0, len(text), length))
