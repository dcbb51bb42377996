"""Reads usage from answers of the Gemini API, whole or streamed.

Shapes: Google's API reference, "Generating content", ``UsageMetadata``. The figures of a stream are
cumulative and repeat in each chunk; the last one said wins.
"""

from __future__ import annotations

from typing import Any

import msgspec

from relay_gateway.plugin import CONTENT, FAILED, TERMINAL, UsageMeter, count


class _Chunk(msgspec.Struct):
    candidates: Any = None
    promptFeedback: Any = None  # noqa: N815 - the member's name
    usageMetadata: Any = None  # noqa: N815
    modelVersion: Any = None  # noqa: N815
    error: Any = None


_CHUNK = msgspec.json.Decoder(_Chunk)


class GenerateMeter(UsageMeter):
    """Meter of ``gemini.generate``."""

    def body(self, body: bytes) -> None:
        """A whole answer."""
        chunk = _decode(body)
        if chunk is not None:
            self._note(chunk)

    def event(self, name: bytes, data: bytes) -> int:
        """One chunk; the one with a finish reason, or one that says why there is none, is the
        last."""
        chunk = _decode(data)
        if chunk is None:
            return 0
        if chunk.error:
            return FAILED
        self._note(chunk)
        candidate = _first(chunk)
        flags = CONTENT if _shows_something(candidate) else 0
        ended = self.reading.finish_reason is not None
        return flags | TERMINAL if ended and (candidate or chunk.promptFeedback) else flags

    def _note(self, chunk: _Chunk) -> None:
        if isinstance(chunk.modelVersion, str) and chunk.modelVersion:
            self.reading.upstream_model = chunk.modelVersion
        reason = _first(chunk).get("finishReason")
        if reason is None and isinstance(chunk.promptFeedback, dict):
            reason = chunk.promptFeedback.get("blockReason")
        if isinstance(reason, str) and reason:
            self.reading.finish_reason = reason
        if isinstance(chunk.usageMetadata, dict):
            self._read_usage(chunk.usageMetadata)

    def _read_usage(self, usage: dict[str, Any]) -> None:
        prompt, tools = (
            count(usage.get(name)) for name in ("promptTokenCount", "toolUsePromptTokenCount")
        )
        written, thoughts = (
            count(usage.get(name)) for name in ("candidatesTokenCount", "thoughtsTokenCount")
        )
        if prompt is not None:
            self._set("input", prompt + (tools or 0))
        if written is not None or thoughts is not None:
            self._set("output", (written or 0) + (thoughts or 0))
        self._set("reasoning", thoughts)
        self._set("cacheRead", count(usage.get("cachedContentTokenCount")))
        self._set("audioInput", _audio(usage.get("promptTokensDetails")))
        self._set("audioOutput", _audio(usage.get("candidatesTokensDetails")))

    def _set(self, meter: str, amount: int | None) -> None:
        # Sums are checked again: two large counts together may be none.
        figure = count(amount)
        if figure is not None:
            self.reading.tokens[meter] = figure


class EmbedMeter(UsageMeter):
    """Meter of ``gemini.embed``, whose answers say how many tokens went in where they say any."""

    def body(self, body: bytes) -> None:
        """A whole answer."""
        chunk = _decode(body)
        if chunk is not None and isinstance(chunk.usageMetadata, dict):
            figure = count(chunk.usageMetadata.get("promptTokenCount"))
            if figure is not None:
                self.reading.tokens["input"] = figure

    def event(self, name: bytes, data: bytes) -> int:
        """Never part of this format."""
        return 0


class SilentMeter(UsageMeter):
    """Meter of ``gemini.count_tokens``: the count in the answer is no consumption."""

    def body(self, body: bytes) -> None:
        """A whole answer; nothing in it is usage."""

    def event(self, name: bytes, data: bytes) -> int:
        """Never part of this format."""
        return 0


def _decode(data: bytes) -> _Chunk | None:
    try:
        return _CHUNK.decode(data)
    except (ValueError, RecursionError):
        return None


def _first(chunk: _Chunk) -> dict[str, Any]:
    if isinstance(chunk.candidates, list) and chunk.candidates:
        found = chunk.candidates[0]
        return found if isinstance(found, dict) else {}
    return {}


def _shows_something(candidate: dict[str, Any]) -> bool:
    content = candidate.get("content")
    parts = content.get("parts") if isinstance(content, dict) else None
    if not isinstance(parts, list):
        return False
    return any(
        isinstance(part, dict)
        and not part.get("thought")
        and bool(part.get("text") or part.get("functionCall") or part.get("inlineData"))
        for part in parts
    )


def _audio(details: object) -> int | None:
    for entry in details if isinstance(details, list) else ():
        if isinstance(entry, dict) and entry.get("modality") == "AUDIO":
            return count(entry.get("tokenCount"))
    return None
