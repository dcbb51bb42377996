"""Whole answers of the format, to and from the canonical form."""

from __future__ import annotations

from typing import Any

import msgspec

from relay_gateway.errors import UpstreamProtocolError
from relay_gateway.plugin import AnswerContext
from relay_gateway.plugin.canonical import (
    Blob,
    CanonicalResponse,
    Part,
    Reasoning,
    Refusal,
    Stop,
    StopKind,
    Text,
    ToolCall,
    seal,
)
from relay_gateway_provider_acme.words import FORMAT, STOP_WORDS, STOPS, read_usage, write_usage


class Piece(msgspec.Struct):
    """A part of an answer, or its beginning in a stream."""

    type: str
    text: str = ""
    seal: str = ""
    id: str = ""
    name: str = ""
    arguments: str = ""


class _Answer(msgspec.Struct):
    parts: list[Piece]
    id: str = ""
    model: str = ""
    stop: str = ""
    usage: Any = None


_decode = msgspec.json.Decoder(_Answer).decode


def read_answer(body: bytes) -> CanonicalResponse:
    """A whole answer; parts of a type that nobody knows are named as dropped."""
    try:
        answer = _decode(body)
    except (ValueError, RecursionError) as error:
        raise UpstreamProtocolError("the upstream's answer is not of the format") from error
    parts = [(piece, part_of(piece)) for piece in answer.parts]
    return CanonicalResponse(
        id=answer.id,
        model=answer.model,
        parts=tuple(part for _, part in parts if part is not None),
        stop=stop_of(answer.stop),
        usage=read_usage(answer.usage),
        dropped=tuple(f"parts[].{piece.type}" for piece, part in parts if part is None),
    )


def stop_of(word: str) -> Stop:
    """Why an answer ended; unknown words are the end."""
    return Stop(STOPS.get(word, StopKind.END))


def part_of(piece: Piece) -> Text | Reasoning | ToolCall | None:
    """The part that a piece tells."""
    match piece.type:
        case "text":
            return Text(piece.text)
        case "thought":
            blob = Blob(FORMAT, piece.seal) if piece.seal else None
            return Reasoning((piece.text,) if piece.text else (), blob=blob)
        case "call":
            return ToolCall(piece.id, piece.name, piece.arguments)
    return None


def write_answer(response: CanonicalResponse, context: AnswerContext) -> bytes:
    """A whole answer."""
    declined = any(isinstance(part, Refusal) for part in response.parts)
    members = {
        "id": response.id or context.answer_id,
        "model": response.model or context.request.model,
        "parts": [_piece(part) for part in response.parts],
        "stop": stop_word(response.stop, declined=declined),
        "usage": write_usage(response.usage),
    }
    return msgspec.json.encode(members)


def stop_word(stop: Stop, *, declined: bool) -> str:
    """The word for why an answer ended; ``declined`` when the model did so in words."""
    return STOP_WORDS[StopKind.REFUSAL if declined else stop.kind]


def sealed(blob: Blob) -> str:
    """What a caller is to give back; blobs of other formats travel sealed."""
    return blob.data if blob.format == FORMAT else seal(blob)


def _piece(part: Part) -> dict[str, Any]:
    match part:
        case Text(text=text) | Refusal(text=text):
            return {"type": "text", "text": text}
        case Reasoning():
            piece = {"type": "thought", "text": "\n\n".join(part.summary or part.content)}
            return piece | ({"seal": sealed(part.blob)} if part.blob is not None else {})
        case ToolCall():
            piece = {"type": "call", "id": part.id, "name": part.name}
            return piece | {"arguments": part.arguments}
    raise UpstreamProtocolError(f"acme.talk has no {type(part).__name__}")
