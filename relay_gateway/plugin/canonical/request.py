"""A request in the provider-neutral form: the conversation, the tools and the options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from relay_gateway.plugin.canonical.features import Feature
from relay_gateway.plugin.canonical.parts import CacheMark, Part

Role = Literal["system", "developer", "user", "assistant", "tool"]


class Message(msgspec.Struct, frozen=True):
    """One turn of the conversation, where it stood; ``name`` tells several people of one role
    apart."""

    role: Role
    parts: tuple[Part, ...]
    name: str = ""
    extra: dict[str, Any] = {}


class Tool(msgspec.Struct, frozen=True, tag=True):
    """A function that the caller can run. ``parameters`` is a JSON schema, ``None`` for none."""

    name: str
    description: str = ""
    parameters: dict[str, Any] | None = None
    strict: bool | None = None
    cache: CacheMark | None = None
    extra: dict[str, Any] = {}


class NativeTool(msgspec.Struct, frozen=True, tag=True):
    """A tool that only the format it was read from knows, as its JSON value."""

    data: dict[str, Any]


class ToolChoice(msgspec.Struct, frozen=True):
    """Whether tools may or must be called; ``names`` are the only ones allowed, empty means all."""

    mode: Literal["auto", "none", "required"]
    names: tuple[str, ...] = ()


class ReasoningOptions(msgspec.Struct, frozen=True):
    """How much to think and how much of it to show.

    ``mode`` ``adaptive`` leaves the amount to the model; ``effort`` is one of none, minimal, low,
    medium, high, xhigh and max; ``budget`` counts tokens; ``summary`` is what to show, in the words
    of its format, ``omitted`` for nothing.
    """

    mode: Literal["on", "off", "adaptive", "between_tools"] | None = None
    effort: str | None = None
    budget: int | None = None
    summary: str | None = None


class JsonOutput(msgspec.Struct, frozen=True):
    """The answer is to be JSON, of this ``schema`` where there is one."""

    schema: dict[str, Any] | None = None
    name: str = ""
    description: str = ""
    strict: bool | None = None


@dataclass(frozen=True, slots=True)
class Unheld:
    """A member of the request that the canonical form has no room for.

    ``path`` names it as the caller wrote it; ``advisory`` says that an answer without it is still
    the answer that was asked for; ``kind`` is the type of a part or tool that is not held.
    """

    path: str
    advisory: bool = False
    kind: str = ""


@dataclass(slots=True)
class Origin:
    """Where a request was read from: the wire format, what it calls each feature, and what of it is
    not held."""

    format: str = ""
    names: Mapping[Feature, str] = field(default_factory=dict)
    unheld: list[Unheld] = field(default_factory=list)


class CanonicalRequest(msgspec.Struct, kw_only=True):
    """A whole request. ``None`` and empty mean that the caller did not say it.

    ``model`` is the caller's word for the model, ``stop`` the texts that end the answer,
    ``stream_usage`` whether the caller wants usage figures in a stream, ``extra`` the members only
    its own format knows.
    """

    model: str
    messages: tuple[Message, ...]
    stream: bool = False
    stream_usage: bool | None = None
    tools: tuple[Tool | NativeTool, ...] = ()
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    seed: int | None = None
    choices: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    logit_bias: dict[str, float] | None = None
    stop: tuple[str, ...] = ()
    reasoning: ReasoningOptions | None = None
    output: JsonOutput | None = None
    verbosity: str | None = None
    cache: CacheMark | None = None
    cache_key: str | None = None
    user: str | None = None
    metadata: dict[str, str] | None = None
    service_tier: str | None = None
    extra: dict[str, Any] = {}
    origin: Origin = msgspec.field(default_factory=Origin)
