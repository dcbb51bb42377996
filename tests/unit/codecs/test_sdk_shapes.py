"""What the codecs write, judged by the models and parameter types of the providers' own SDKs."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import msgspec
import pytest
from anthropic.types import Message, RawMessageStreamEvent
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses import Response, ResponseStreamEvent
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from pydantic import TypeAdapter

from relay_gateway.errors import RequestRefusedError
from relay_gateway.http.sse import EventSplitter, parse_event
from relay_gateway.plugin import WireCodec
from relay_gateway.plugin.canonical.features import Feature
from relay_gateway.testing.conformance.codecs import context, stream_of
from relay_gateway.testing.conversations import ANSWERS, LOGPROBS, answer, feature_requests
from relay_gateway_provider_anthropic.messages_codec import MessagesCodec
from relay_gateway_provider_gemini.codec import GenerateCodec
from relay_gateway_provider_openai.chat_codec import ChatCodec
from relay_gateway_provider_openai.responses_codec import ResponsesCodec

with warnings.catch_warnings():
    # On newer Python this SDK names things of the standard library that are on their way out.
    warnings.simplefilter("ignore", DeprecationWarning)
    from google.genai.types import GenerateContentResponse

CODECS: dict[str, WireCodec] = {
    "chat": ChatCodec(),
    "responses": ResponsesCodec(),
    "messages": MessagesCodec(),
    "gemini": GenerateCodec(),
}
WHOLE: dict[str, TypeAdapter[Any]] = {
    "chat": TypeAdapter(ChatCompletion),
    "responses": TypeAdapter(Response),
    "messages": TypeAdapter(Message),
    "gemini": TypeAdapter(GenerateContentResponse),
}
EVENTS: dict[str, TypeAdapter[Any]] = {
    "chat": TypeAdapter(ChatCompletionChunk),
    "responses": TypeAdapter(ResponseStreamEvent),
    "messages": TypeAdapter(RawMessageStreamEvent),
    "gemini": TypeAdapter(GenerateContentResponse),
}
REQUESTS: dict[str, TypeAdapter[Any]] = {
    "chat": TypeAdapter(CompletionCreateParamsStreaming),
    "responses": TypeAdapter(ResponseCreateParamsStreaming),
    "messages": TypeAdapter(MessageCreateParamsStreaming),
}
ALL = {**ANSWERS, "logprobs": answer(*ANSWERS["text"].parts, logprobs=LOGPROBS)}
CONVERSATIONS = Path(__file__).parents[3] / "plugins"


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("format_name", CODECS)
def test_whole_answers_are_what_the_sdk_expects(format_name: str, name: str) -> None:
    body = CODECS[format_name].encode_response(ALL[name], context())
    WHOLE[format_name].validate_json(body)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("format_name", CODECS)
def test_stream_events_are_what_the_sdk_expects(format_name: str, name: str) -> None:
    for raw in EventSplitter().feed(stream_of(CODECS[format_name], ALL[name])):
        kind, data = parse_event(raw)
        if data == b"[DONE]":
            continue
        EVENTS[format_name].validate_json(data)
        if format_name in ("responses", "messages"):
            assert kind.decode() == msgspec.json.decode(data)["type"]


@pytest.mark.parametrize("feature", list(Feature), ids=lambda feature: feature.name)
@pytest.mark.parametrize("format_name", REQUESTS)
def test_requests_are_what_the_sdk_could_have_sent(format_name: str, feature: Feature) -> None:
    codec = CODECS[format_name]
    asked = feature_requests(codec.format)[feature]
    asked.stream = True
    try:
        body = codec.encode_request(asked, "model-1").body
    except RequestRefusedError:
        return
    parsed = REQUESTS[format_name].validate_json(body)
    # Lists are only checked when they are read.
    for name in ("messages", "input", "tools"):
        if not isinstance(parsed.get(name), str):
            assert all(each is not None for each in parsed.get(name) or ())
