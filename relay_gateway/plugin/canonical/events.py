"""The events of a streamed answer in the provider-neutral form.

    Started (PartStarted (…Delta | Signed)* PartStopped | UsageSeen | Ping)* (Finished | Failed)

Parts are numbered from 0 in the order of the answer. Only tool calls may be open at once, as a
model may write the arguments of parallel ones side by side; an encoder whose format knows one open
part only puts a :class:`~relay_gateway.plugin.sequencer.Sequencer` before itself.
"""

from __future__ import annotations

import msgspec

from relay_gateway.plugin.canonical.blobs import Blob
from relay_gateway.plugin.canonical.parts import Reasoning, Refusal, Text, ToolCall
from relay_gateway.plugin.canonical.response import Stop, TokenLogprob, Usage


class Started(msgspec.Struct, frozen=True, tag=True):
    """The answer begins."""

    id: str
    model: str


class PartStarted(msgspec.Struct, frozen=True, tag=True):
    """A part begins; ``part`` is empty but for the id and name of a tool call."""

    index: int
    part: Text | Refusal | Reasoning | ToolCall


class TextDelta(msgspec.Struct, frozen=True, tag=True):
    """More of a text."""

    index: int
    text: str
    logprobs: tuple[TokenLogprob, ...] = ()


class RefusalDelta(msgspec.Struct, frozen=True, tag=True):
    """More of a refusal."""

    index: int
    text: str


class ReasoningDelta(msgspec.Struct, frozen=True, tag=True):
    """More of a thought; ``section`` counts the texts of its summary or its content."""

    index: int
    text: str
    summary: bool = True
    section: int = 0


class Signed(msgspec.Struct, frozen=True, tag=True):
    """The blob of a reasoning part, whole."""

    index: int
    blob: Blob


class ArgumentsDelta(msgspec.Struct, frozen=True, tag=True):
    """More of a tool call's arguments, cut anywhere."""

    index: int
    text: str


class PartStopped(msgspec.Struct, frozen=True, tag=True):
    """A part is complete."""

    index: int


class UsageSeen(msgspec.Struct, frozen=True, tag=True):
    """Figures so far; they replace what was said before."""

    usage: Usage


class Ping(msgspec.Struct, frozen=True, tag=True):
    """The upstream is alive and has nothing to say."""


class Finished(msgspec.Struct, frozen=True, tag=True):
    """The regular end of the answer; every part has stopped."""

    stop: Stop


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The upstream reported an error inside the stream. ``status`` is what it would have been as an
    answer, ``message`` the upstream's own words."""

    status: int
    code: str
    message: str


StreamEvent = (
    Started
    | PartStarted
    | TextDelta
    | RefusalDelta
    | ReasoningDelta
    | Signed
    | ArgumentsDelta
    | PartStopped
    | UsageSeen
    | Ping
    | Finished
    | Failed
)
"""Whatever happens in a stream."""
