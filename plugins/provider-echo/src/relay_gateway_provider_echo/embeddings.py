"""Embeddings as OpenAI's API reference describes them: unit vectors made of a hash of the text."""

from __future__ import annotations

import base64
import hashlib
import math
import struct
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from relay_gateway_provider_echo.reply import Reply
from relay_gateway_provider_echo.speaker import Speaker
from relay_gateway_provider_echo.turn import ToolUse, Turn, decode
from relay_gateway_provider_echo.words import count_words

DEFAULT_DIMENSIONS = 256
MAX_DIMENSIONS = 4096

_Text = Annotated[str, Meta(min_length=1)]
_Tokens = Annotated[list[int], Meta(min_length=1)]


class _Request(msgspec.Struct):
    model: str
    input: _Text | Annotated[list[_Text | int | _Tokens], Meta(min_length=1, max_length=2048)]
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Annotated[int, Meta(ge=1, le=MAX_DIMENSIONS)] | None = None


class EmbeddingsSpeaker(Speaker):
    """Speaks ``openai.embeddings``; the whole answer ignores what the reply would say."""

    def __init__(self, body: bytes) -> None:
        self._request = request = decode(body, _Request)
        self._inputs = _inputs(request.input)
        first = self._inputs[0]
        self.turn = Turn(
            text=first if isinstance(first, str) else "",
            prompt_tokens=sum(map(_tokens, self._inputs)),
            from_user=isinstance(first, str),
            tool_use=ToolUse.NEVER,
        )

    def whole(self, reply: Reply) -> object:
        dimensions = self._request.dimensions or DEFAULT_DIMENSIONS
        packed = [_packed_vector(value, dimensions) for value in self._inputs]
        return {
            "object": "list",
            "data": [
                {"object": "embedding", "index": index, "embedding": self._encoded(vector)}
                for index, vector in enumerate(packed)
            ],
            "model": reply.model,
            "usage": {"prompt_tokens": reply.prompt_tokens, "total_tokens": reply.prompt_tokens},
        }

    def _encoded(self, packed: bytes) -> str | list[float]:
        if self._request.encoding_format == "base64":
            return base64.b64encode(packed).decode("ascii")
        return list(struct.unpack(f"<{len(packed) // 4}f", packed))


def _inputs(value: str | list[str | int | list[int]]) -> list[str | list[int]]:
    """The inputs one by one: a bare list of token numbers is a single one."""
    if isinstance(value, str):
        return [value]
    tokens = [item for item in value if isinstance(item, int)]
    if tokens:
        return [tokens]
    return [item for item in value if not isinstance(item, int)]


def _tokens(value: str | list[int]) -> int:
    return count_words([value]) if isinstance(value, str) else len(value)


def _packed_vector(value: str | list[int], dimensions: int) -> bytes:
    """A vector of length 1 as little-endian 32-bit floats, the same everywhere."""
    digest = hashlib.shake_256(msgspec.json.encode(value)).digest(4 * dimensions)
    numbers = [number / 2**31 - 1 for number in struct.unpack(f"<{dimensions}I", digest)]
    length = math.sqrt(math.fsum(number * number for number in numbers))
    return struct.pack(f"<{dimensions}f", *(number / length for number in numbers))
