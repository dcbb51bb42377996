"""Whole answers of generateContent, to and from the canonical form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from relay_gateway.errors import UpstreamProtocolError
from relay_gateway.plugin import count
from relay_gateway.plugin.canonical import (
    Blob,
    CanonicalResponse,
    Part,
    Reasoning,
    Refusal,
    Stop,
    StopKind,
    Text,
    TokenLogprob,
    ToolCall,
    Usage,
    seal,
)
from relay_gateway.plugin.codec import AnswerContext, arguments_of
from relay_gateway_provider_gemini.words import (
    BROKEN,
    CALL_PREFIX,
    FINISH_REASONS,
    FORMAT,
    STOPS,
    UNSIGNED,
)


class Candidate(msgspec.Struct):
    """One candidate, whole or the next piece of it."""

    content: dict[str, Any] | None = None
    finishReason: str | None = None  # noqa: N815 - the member's name
    finishMessage: str | None = None  # noqa: N815
    index: int = 0
    logprobsResult: dict[str, Any] | None = None  # noqa: N815


class Chunk(msgspec.Struct):
    """A whole answer, or the next piece of one."""

    candidates: list[Candidate] | None = None
    promptFeedback: dict[str, Any] | None = None  # noqa: N815 - the member's name
    usageMetadata: dict[str, Any] | None = None  # noqa: N815
    modelVersion: str = ""  # noqa: N815
    responseId: str = ""  # noqa: N815
    error: Any = None

    def parts(self) -> list[dict[str, Any]]:
        """The parts of its candidate. Raises :class:`UpstreamProtocolError` if there are several
        candidates: only one was asked for."""
        candidates = self.candidates or []
        if len(candidates) > 1 or any(candidate.index for candidate in candidates):
            raise UpstreamProtocolError("the upstream's answer has more than one candidate")
        content = candidates[0].content if candidates else None
        found = content.get("parts") if content is not None else None
        return [part for part in found or () if isinstance(part, dict)]

    def stop(self) -> Stop | None:
        """Why the answer ended, if this says so. Raises :class:`UpstreamProtocolError` when it
        ended without being an answer."""
        blocked = (self.promptFeedback or {}).get("blockReason")
        if blocked:
            detail = (self.promptFeedback or {}).get("blockReasonMessage")
            return Stop(StopKind.REFUSAL, detail=str(detail or blocked))
        candidate = self.candidates[0] if self.candidates else Candidate()
        reason = candidate.finishReason
        if reason in BROKEN:
            raise UpstreamProtocolError(f"the upstream ended its answer with {reason}")
        if not reason:
            return None
        return Stop(STOPS.get(reason, StopKind.END), detail=candidate.finishMessage)

    def logprobs(self) -> tuple[TokenLogprob, ...] | None:
        """The log probabilities of its tokens."""
        result = self.candidates[0].logprobsResult if self.candidates else None
        return tuple(_logprobs(result)) if result is not None else None


_decode = msgspec.json.Decoder(Chunk).decode


def read_chunk(data: bytes) -> Chunk:
    """An answer or a piece of one; raises :class:`UpstreamProtocolError`."""
    try:
        return _decode(data)
    except (ValueError, RecursionError) as error:
        raise UpstreamProtocolError("the upstream's answer is not of the format") from error


def read_answer(body: bytes) -> CanonicalResponse:
    """A whole answer with one candidate."""
    chunk = read_chunk(body)
    stop = chunk.stop()
    if stop is None:
        raise UpstreamProtocolError("the upstream's answer has neither candidate nor reason")
    found = chunk.parts()
    parts = tuple(_joined(part for each in _read_all(found, chunk.responseId) for part in each))
    if stop.kind is StopKind.END and any(isinstance(part, ToolCall) for part in parts):
        stop = Stop(StopKind.TOOL_CALLS)
    return CanonicalResponse(
        id=chunk.responseId,
        model=chunk.modelVersion,
        parts=parts,
        stop=stop,
        usage=read_usage(chunk.usageMetadata),
        logprobs=chunk.logprobs(),
        dropped=tuple(dict.fromkeys(f"parts[].{kind}" for kind in map(_foreign, found) if kind)),
    )


def _read_all(found: list[dict[str, Any]], answer_id: str) -> Iterator[list[Part]]:
    calls = 0
    for part in found:
        parts = read_part(part, answer_id, calls)
        calls += any(isinstance(each, ToolCall) for each in parts)
        yield parts


def read_part(part: dict[str, Any], answer_id: str, calls: int) -> list[Part]:
    """The canonical parts of one part; ``calls`` counts the calls before it."""
    signature = part.get("thoughtSignature")
    blob = Blob(FORMAT, signature) if isinstance(signature, str) and signature else None
    text, call = part.get("text"), part.get("functionCall")
    if part.get("thought"):
        return [Reasoning((str(text),) if text else (), blob=blob or Blob(FORMAT, "", UNSIGNED))]
    signed: list[Part] = [Reasoning(blob=blob)] if blob is not None else []
    if isinstance(call, dict):
        call_id = str(call.get("id") or f"{CALL_PREFIX}{answer_id}_{calls}")
        arguments = msgspec.json.encode(call.get("args") or {}).decode()
        return [*signed, ToolCall(call_id, str(call.get("name") or ""), arguments)]
    return [*signed, Text(str(text))] if text else signed


def _joined(parts: Iterable[Part]) -> Iterator[Part]:
    """The parts with neighbouring texts put together, as pieces of one."""
    before: Part | None = None
    for part in parts:
        if isinstance(before, Text) and isinstance(part, Text):
            before = Text(before.text + part.text)
            continue
        if before is not None:
            yield before
        before = part
    if before is not None:
        yield before


def _foreign(part: dict[str, Any]) -> str:
    """What a part is that the canonical form has no room for."""
    known = {"text", "functionCall", "thought", "thoughtSignature"}
    return "" if part.keys() & known else next(iter(part), "")


def read_usage(found: object) -> Usage:
    """``usageMetadata``: thoughts are counted beside the candidates there."""
    if not isinstance(found, dict):
        return Usage()
    prompt, tools = count(found.get("promptTokenCount")), found.get("toolUsePromptTokenCount")
    written, thoughts = (
        count(found.get(name)) for name in ("candidatesTokenCount", "thoughtsTokenCount")
    )
    said = written is not None or thoughts is not None
    return Usage(
        input=None if prompt is None else prompt + (count(tools) or 0),
        output=(written or 0) + (thoughts or 0) if said else None,
        cache_read=count(found.get("cachedContentTokenCount")),
        reasoning=thoughts,
        audio_input=_audio(found.get("promptTokensDetails")),
        audio_output=_audio(found.get("candidatesTokensDetails")),
    )


def _audio(details: object) -> int | None:
    for entry in details if isinstance(details, list) else ():
        if isinstance(entry, dict) and entry.get("modality") == "AUDIO":
            return count(entry.get("tokenCount"))
    return None


def write_usage(usage: Usage) -> dict[str, Any]:
    """``usage`` as ``usageMetadata``; figures nobody said count as 0."""
    told = {
        "promptTokenCount": usage.input or 0,
        "candidatesTokenCount": max(0, (usage.output or 0) - (usage.reasoning or 0)),
        "totalTokenCount": (usage.input or 0) + (usage.output or 0),
    }
    if usage.reasoning is not None:
        told["thoughtsTokenCount"] = usage.reasoning
    if usage.cache_read is not None:
        told["cachedContentTokenCount"] = usage.cache_read
    return told


def _logprobs(result: dict[str, Any]) -> Iterator[TokenLogprob]:
    tops = result.get("topCandidates") or []
    for place, chosen in enumerate(result.get("chosenCandidates") or ()):
        top = tops[place].get("candidates") or () if place < len(tops) else ()
        one = _token(chosen)
        yield TokenLogprob(one.token, one.logprob, None, tuple(_token(each) for each in top))


def _token(entry: dict[str, Any]) -> TokenLogprob:
    return TokenLogprob(str(entry.get("token") or ""), float(entry.get("logProbability") or 0.0))


def write_logprobs(logprobs: Iterable[TokenLogprob]) -> dict[str, Any]:
    """``logprobsResult`` for ``logprobs``."""
    listed = list(logprobs)
    return {
        "chosenCandidates": [_entry(one) for one in listed],
        "topCandidates": [{"candidates": [_entry(top) for top in one.top]} for one in listed],
    }


def _entry(one: TokenLogprob) -> dict[str, Any]:
    return {"token": one.token, "logProbability": one.logprob}


def write_answer(response: CanonicalResponse, context: AnswerContext) -> bytes:
    """A whole answer with one candidate."""
    candidate: dict[str, Any] = {
        "content": {"role": "model", "parts": [part_of(part) for part in response.parts]},
        "finishReason": FINISH_REASONS[response.stop.kind],
        "index": 0,
    }
    if response.stop.detail:
        candidate["finishMessage"] = response.stop.detail
    if response.logprobs is not None:
        candidate["logprobsResult"] = write_logprobs(response.logprobs)
    head = head_of(response.id, response.model, context)
    body = {"candidates": [candidate], "usageMetadata": write_usage(response.usage)}
    return msgspec.json.encode(body | head)


def head_of(answer_id: str, model: str, context: AnswerContext) -> dict[str, Any]:
    """The members that name the answer and its model."""
    return {
        "modelVersion": model or context.request.model,
        "responseId": answer_id or context.answer_id,
    }


def part_of(part: Part) -> dict[str, Any]:
    """A canonical part of an answer."""
    match part:
        case Text(text=text) | Refusal(text=text):
            return {"text": text}
        case Reasoning(blob=blob):
            written = {"text": "\n\n".join(part.summary or part.content), "thought": True}
            return written | ({"thoughtSignature": signature_of(blob)} if blob is not None else {})
        case ToolCall():
            return {"functionCall": {"id": part.id, "name": part.name, "args": _arguments(part)}}
    raise UpstreamProtocolError(f"an answer with {type(part).__name__} cannot be told here")


def _arguments(call: ToolCall) -> dict[str, Any]:
    try:
        return arguments_of(call)
    except ValueError as error:
        raise UpstreamProtocolError("the upstream called a tool without a JSON object") from error


def signature_of(blob: Blob) -> str:
    """What a client is to give back; blobs of other formats are sealed."""
    return blob.data if blob.format == FORMAT else seal(blob)
