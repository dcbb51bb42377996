"""Callers of every wire format, and one upstream that is a host of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import httpx
import pytest

from relay_gateway.plugin import WireCodec, WireFormat
from relay_gateway.plugin.canonical import CanonicalRequest, CanonicalResponse
from relay_gateway.testing.answer_pieces import assembled, read_stream
from relay_gateway.testing.polyglot import Polyglot, SpokenHost
from relay_gateway_provider_anthropic.formats import MessagesFormat
from relay_gateway_provider_anthropic.messages_codec import MessagesCodec
from relay_gateway_provider_gemini.codec import GenerateCodec
from relay_gateway_provider_gemini.formats import GenerateFormat
from relay_gateway_provider_openai.chat_codec import ChatCodec
from relay_gateway_provider_openai.formats import ChatFormat, ResponsesFormat
from relay_gateway_provider_openai.responses_codec import ResponsesCodec

HOSTS = {
    "chat": SpokenHost("openai", ("openai.chat",), "/v1"),
    "responses": SpokenHost("openai", ("openai.responses",), "/v1"),
    "messages": SpokenHost("anthropic", ("anthropic.messages",)),
    "gemini": SpokenHost("gemini", ("gemini.generate",)),
}
FORMATS: dict[str, WireFormat] = {
    "chat": ChatFormat(),
    "responses": ResponsesFormat(),
    "messages": MessagesFormat(),
    "gemini": GenerateFormat(),
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back; ``complete`` is false where the connection broke inside it."""

    status: int
    headers: httpx.Headers
    body: bytes
    complete: bool = True

    @property
    def request_id(self) -> str:
        return self.headers["x-relay-request-id"]


@dataclass(frozen=True, slots=True)
class Asker:
    """A caller of one wire format; it reads and writes with the codec of that format."""

    name: str
    codec: WireCodec
    path: Callable[[str, bool], str]

    def ask(self, world: Polyglot, model: str, asked: CanonicalRequest) -> Answer:
        """Sends ``asked`` for ``model`` and reads the answer to its end, whatever that is."""
        return self.send(world, model, self.body(model, asked), streamed=asked.stream)

    def body(self, model: str, asked: CanonicalRequest) -> bytes:
        return self.codec.encode_request(asked, model).body

    def send(self, world: Polyglot, model: str, body: bytes, *, streamed: bool) -> Answer:
        """Sends a body as it is."""
        headers = {"authorization": f"Bearer {world.relay_key}", "content-type": "application/json"}
        url = world.url + self.path(model, streamed)
        pieces: list[bytes] = []
        with httpx.stream("POST", url, headers=headers, content=body, timeout=20) as answer:
            try:
                pieces.extend(answer.iter_raw())
            except httpx.RemoteProtocolError:
                return Answer(answer.status_code, answer.headers, b"".join(pieces), complete=False)
        return Answer(answer.status_code, answer.headers, b"".join(pieces))

    def read(self, answer: Answer, *, streamed: bool) -> CanonicalResponse:
        """What the answer tells; an assertion fails where it breaks the format."""
        assert (answer.status, answer.complete) == (200, True), answer.body
        if not streamed:
            return self.codec.decode_response(answer.body)
        assert answer.headers["content-type"].startswith("text/event-stream")
        return assembled(read_stream(self.codec.stream_decoder(), [answer.body]))


def _gemini_path(model: str, streamed: bool) -> str:
    operation = "streamGenerateContent?alt=sse" if streamed else "generateContent"
    return f"/v1beta/models/{model}:{operation}"


ASKERS = {
    "chat": Asker("chat", ChatCodec(), lambda _model, _streamed: "/v1/chat/completions"),
    "responses": Asker("responses", ResponsesCodec(), lambda _model, _streamed: "/v1/responses"),
    "messages": Asker("messages", MessagesCodec(), lambda _model, _streamed: "/v1/messages"),
    "gemini": Asker("gemini", GenerateCodec(), _gemini_path),
}
PAIRS = [(source, target) for source in ASKERS for target in HOSTS]
EVERY_PAIR = pytest.mark.parametrize(
    ("source", "target"), PAIRS, ids=["-to-".join(pair) for pair in PAIRS]
)
UNLIKE_PAIRS = pytest.mark.parametrize(
    ("source", "target"),
    [pair for pair in PAIRS if pair[0] != pair[1]],
    ids=str,
)
SOME_PAIRS = pytest.mark.parametrize(
    ("source", "target"),
    [*zip(ASKERS, HOSTS, strict=True), *zip(ASKERS, [*HOSTS][1:] + [*HOSTS][:1], strict=True)],
    ids=str,
)
"""Each format natively and from one other."""
EVERY_FORMAT = pytest.mark.parametrize("source", ASKERS)
BOTH_WAYS = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
