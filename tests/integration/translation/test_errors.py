"""What an upstream refuses is told in the caller's dialect, with its status, its kind and its
words; what cannot be asked is refused or named."""

from __future__ import annotations

import json
from typing import Any

import pytest

from relay_gateway.plugin.canonical import Message, Text
from relay_gateway.plugin.canonical.features import Feature
from relay_gateway.testing.conversations import feature_requests, request
from relay_gateway.testing.polyglot import HOST_SECRET, Polyglot
from relay_gateway.testing.speakers import UPSTREAM_REQUEST_ID

from .spoken import ASKERS, BOTH_WAYS, EVERY_FORMAT, EVERY_PAIR, UNLIKE_PAIRS, Answer, Asker

KINDS: dict[str, dict[int, str]] = {
    "messages": {
        400: "invalid_request_error",
        404: "not_found_error",
        429: "rate_limit_error",
        500: "api_error",
        502: "api_error",
        529: "overloaded_error",
    },
    "gemini": {
        400: "INVALID_ARGUMENT",
        404: "NOT_FOUND",
        429: "RESOURCE_EXHAUSTED",
        500: "INTERNAL",
        502: "INTERNAL",
        529: "INTERNAL",
    },
}
OPENAI_KINDS = {429: "rate_limit_error"}


def said(text: str, *, streamed: bool = False) -> Any:
    return request(Message("user", (Text(text),)), stream=streamed, max_output_tokens=64)


def read_error(asker: Asker, answer: Answer) -> tuple[str, str]:
    """Kind and message of an error, where its dialect has them."""
    assert answer.headers["content-type"] == "application/json"
    body = json.loads(answer.body)
    error = body["error"]
    if asker.name == "messages":
        assert body["type"] == "error"
        return error["type"], error["message"]
    if asker.name == "gemini":
        assert error["code"] == answer.status
        return error["status"], error["message"]
    assert error.keys() == {"message", "type", "param", "code"}
    return error["type"], error["message"]


def kind_of(asker: Asker, status: int) -> str:
    if asker.name in KINDS:
        return KINDS[asker.name][status]
    return OPENAI_KINDS.get(status, "invalid_request_error" if status < 500 else "server_error")


@EVERY_PAIR
@pytest.mark.parametrize(
    ("status", "streamed"), [(400, False), (404, True), (429, False), (500, True), (529, False)]
)
def test_an_upstreams_refusal_keeps_status_kind_words_and_request_id(
    mended: Polyglot, source: str, target: str, status: int, *, streamed: bool
) -> None:
    asker = ASKERS[source]
    answer = asker.ask(mended, target, said(f"fail {status}", streamed=streamed))
    assert answer.status == status
    kind, message = read_error(asker, answer)
    assert message == f"told to fail with {status}"
    if source != target:
        assert kind == kind_of(asker, status)
    sent = [answer.headers.get("x-request-id"), answer.headers.get("request-id")]
    assert UPSTREAM_REQUEST_ID in sent or target == "gemini"
    record = mended.log(answer.request_id)
    assert (record["outcome"], record["status"]) == ("upstream_error", status)
    assert {attempt["status"] for attempt in record["attempts"]} == {status}


@EVERY_PAIR
@pytest.mark.parametrize(("status", "streamed"), [(401, False), (403, True)])
def test_f40_a_refused_credential_is_never_shown(
    mended: Polyglot, source: str, target: str, status: int, *, streamed: bool
) -> None:
    asker = ASKERS[source]
    answer = asker.ask(mended, target, said(f"fail {status}", streamed=streamed))
    assert answer.status == 502
    _, message = read_error(asker, answer)
    assert message == f"the upstream refused every credential for the model '{target}'"
    assert b"told to fail" not in answer.body
    assert HOST_SECRET.encode() not in answer.body


@UNLIKE_PAIRS
@BOTH_WAYS
def test_f43_what_is_no_answer_is_never_told_as_one(
    mended: Polyglot, source: str, target: str, *, streamed: bool
) -> None:
    asker = ASKERS[source]
    answer = asker.ask(mended, target, said("html", streamed=streamed))
    assert answer.status == 502
    assert read_error(asker, answer)[1] == "the upstream did not give a valid answer"
    record = mended.log(answer.request_id)
    assert record["errorCode"] == "upstream_invalid_response"


@EVERY_PAIR
def test_f47_an_error_as_the_first_event_is_an_error_answer(
    mended: Polyglot, source: str, target: str
) -> None:
    asker = ASKERS[source]
    answer = asker.ask(mended, target, said("error first", streamed=True))
    status = {"messages": 529, "gemini": 503}.get(target, 502)
    assert answer.status == status
    assert read_error(asker, answer)[1] == "told to fail"
    record = mended.log(answer.request_id)
    assert (record["outcome"], record["status"]) == ("upstream_error", status)


DROPPED = [
    ("chat", "messages", Feature.SEED, "seed"),
    ("chat", "gemini", Feature.METADATA, "metadata"),
    ("responses", "messages", Feature.VERBOSITY, "text.verbosity"),
    ("messages", "chat", Feature.TOP_K, "top_k"),
    ("messages", "responses", Feature.TOP_K, "top_k"),
    ("gemini", "messages", Feature.SEED, "generationConfig.seed"),
]


@BOTH_WAYS
@pytest.mark.parametrize(("source", "target", "feature", "field"), DROPPED)
def test_what_is_left_out_is_named_in_a_header(
    world: Polyglot, source: str, target: str, feature: Feature, field: str, *, streamed: bool
) -> None:
    asker = ASKERS[source]
    asked = feature_requests(asker.codec.format)[feature]
    asked.stream = streamed
    answer = asker.ask(world, target, asked)
    assert answer.status == 200
    assert answer.headers["x-relay-dropped-params"] == field
    assert "x-relay-dropped-params" not in asker.ask(world, source, asked).headers


REFUSED = [
    ("chat", "messages", Feature.LOGIT_BIAS, "logit_bias"),
    ("chat", "messages", Feature.LOGPROBS, "logprobs"),
    ("chat", "messages", Feature.AUDIO_DATA, "messages[].content[].input_audio"),
    ("gemini", "messages", Feature.LOGPROBS, "generationConfig.responseLogprobs"),
    ("messages", "responses", Feature.STOP, "stop_sequences"),
]


@pytest.mark.parametrize(("source", "target", "feature", "field"), REFUSED)
def test_what_cannot_be_carried_is_refused_by_its_name_and_sent_nowhere(
    world: Polyglot, source: str, target: str, feature: Feature, field: str
) -> None:
    asker = ASKERS[source]
    answer = asker.ask(world, target, feature_requests(asker.codec.format)[feature])
    assert answer.status == 400
    assert field in read_error(asker, answer)[1]
    assert world.ledger == []
    record = world.log(answer.request_id)
    assert (record["outcome"], record["errorCode"]) == ("rejected", "invalid_request")


@EVERY_FORMAT
def test_what_is_unknown_crosses_to_no_other_format(world: Polyglot, source: str) -> None:
    asker = ASKERS[source]
    body = json.loads(asker.body(source, said("Hello"))) | {"fancy": {"new": True}}
    sent = json.dumps(body | ({} if source == "gemini" else {"model": source})).encode()
    assert asker.send(world, source, sent, streamed=False).status == 200
    assert world.ledger[-1].json()["fancy"] == {"new": True}
    other = "chat" if source != "chat" else "messages"
    body |= {} if source == "gemini" else {"model": other}
    refused = asker.send(world, other, json.dumps(body).encode(), streamed=False)
    assert refused.status == 400
    assert "fancy" in read_error(asker, refused)[1]
