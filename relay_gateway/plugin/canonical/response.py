"""An answer in the provider-neutral form, and the figures and reasons that come with it."""

from __future__ import annotations

import enum

import msgspec

from relay_gateway.plugin.canonical.parts import Part


class StopKind(enum.Enum):
    """Why an answer ended."""

    END = "end"
    """The model had nothing more to say."""
    LENGTH = "length"
    """The limit of output tokens was reached."""
    CONTEXT = "context"
    """The context window was full."""
    STOP_SEQUENCE = "stop_sequence"
    """One of the caller's stop texts came up."""
    TOOL_CALLS = "tool_calls"
    """The model waits for the results of tools."""
    REFUSAL = "refusal"
    """The model declined, or a filter of the provider stepped in."""
    PAUSED = "paused"
    """The provider paused a long turn; the conversation so far continues it."""


class Stop(msgspec.Struct, frozen=True):
    """Why an answer ended; ``sequence`` is the stop text that came up, ``detail`` a provider's own
    explanation for people."""

    kind: StopKind
    sequence: str | None = None
    detail: str | None = None


class Usage(msgspec.Struct, frozen=True):
    """Tokens; ``None`` means that the upstream did not say, 0 that it said zero.

    ``input`` includes what was read from and written to a cache, ``output`` includes reasoning, and
    ``cache_write`` includes ``cache_write_1h``.
    """

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    cache_write_1h: int | None = None
    reasoning: int | None = None
    audio_input: int | None = None
    audio_output: int | None = None

    def over(self, earlier: Usage) -> Usage:
        """These figures, and those of ``earlier`` where these say nothing."""
        return Usage(
            *(
                mine if mine is not None else theirs
                for mine, theirs in zip(
                    msgspec.structs.astuple(self), msgspec.structs.astuple(earlier), strict=True
                )
            )
        )


class TokenLogprob(msgspec.Struct, frozen=True):
    """The log probability of one token and of its alternatives."""

    token: str
    logprob: float
    bytes: tuple[int, ...] | None = None
    top: tuple[TokenLogprob, ...] = ()


class CanonicalResponse(msgspec.Struct, kw_only=True):
    """A whole answer of one assistant turn.

    ``dropped`` names what the upstream sent and this form cannot hold, in the upstream's words.
    """

    id: str
    model: str
    parts: tuple[Part, ...]
    stop: Stop
    usage: Usage = Usage()
    logprobs: tuple[TokenLogprob, ...] | None = None
    dropped: tuple[str, ...] = ()
