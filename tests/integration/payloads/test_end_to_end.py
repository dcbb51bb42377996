"""A payload from the wire to ``GET /logs/{requestId}``: whatever is translated on the way, it has
what the caller sent and received, without what was to be taken out."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from relay_gateway.testing.polyglot import HOST_SECRET, Polyglot, SpokenHost

HOSTS = {
    "chat": SpokenHost("openai", ("openai.chat",), "/v1"),
    "messages": SpokenHost("anthropic", ("anthropic.messages",)),
    "gemini": SpokenHost("gemini", ("gemini.generate",)),
}
NUMBER = "1234-5678-9012"
TEXT = f"my number is {NUMBER} and my name is Ann"
SECTION = {
    "enabled": True,
    "loggers": ["database"],
    "redact": [r"\d{4}-\d{4}-\d{4}", "/metadata/user_id", "/user"],
    "headers": ["user-agent", "x-relay-host"],
}
SECONDS = 20.0


@dataclass(frozen=True)
class Asked:
    """A request, and what came back."""

    body: bytes
    answer: bytes
    request_id: str
    host: str


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Polyglot]:
    directory = tmp_path_factory.mktemp("payloads")
    with Polyglot(directory, HOSTS, {"payload-logging": SECTION}) as world:
        policy = world.create("policies", "Kept", models=["*"], payloadLogging=True)
        spec = {"metadata": {"displayName": "kept"}, "spec": {"policyId": policy}}
        world.relay_key = world.admin.post("/relay-keys", json=spec).json()["plaintext"]
        world.until_served("echo")
        yield world


def _request(source: str, model: str, *, streamed: bool) -> tuple[str, dict[str, Any]]:
    said = {"role": "user", "content": TEXT}
    if source == "chat":
        body = {"model": model, "messages": [said], "stream": streamed, "user": "u-4711"}
        return "/v1/chat/completions", body
    if source == "messages":
        body = {"model": model, "max_tokens": 500, "messages": [said], "stream": streamed}
        return "/v1/messages", {**body, "metadata": {"user_id": "u-4711"}}
    operation = "streamGenerateContent?alt=sse" if streamed else "generateContent"
    contents = [{"role": "user", "parts": [{"text": TEXT}]}]
    return f"/v1beta/models/{model}:{operation}", {"contents": contents}


def ask(world: Polyglot, source: str, model: str, *, streamed: bool) -> Asked:
    path, value = _request(source, model, streamed=streamed)
    body = json.dumps(value).encode()
    headers = {
        "authorization": f"Bearer {world.relay_key}",
        "content-type": "application/json",
        "user-agent": "payload-test/1",
    }
    answer = httpx.post(world.url + path, content=body, headers=headers, timeout=20)
    assert answer.status_code == 200, answer.text
    relay = {name: answer.headers[f"x-relay-{name}"] for name in ("request-id", "host")}
    return Asked(body, answer.content, relay["request-id"], relay["host"])


def payload_of(world: Polyglot, request_id: str) -> dict[str, Any]:
    """The payload, as soon as it can be read."""
    deadline = time.monotonic() + SECONDS
    while True:
        answer = world.admin.get(f"/logs/{request_id}")
        if answer.status_code == 200 and "payload" in answer.json():
            payload: dict[str, Any] = answer.json()["payload"]
            return payload
        assert time.monotonic() < deadline, answer.text
        time.sleep(0.05)


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("source", "model"),
    [
        ("chat", "chat"),
        ("chat", "messages"),
        ("messages", "chat"),
        ("messages", "gemini"),
        ("gemini", "messages"),
        ("chat", "echo"),
        ("messages", "echo"),
    ],
    ids=str,
)
def test_t65_a_payload_has_what_was_on_the_wire_but_for_what_was_redacted(
    world: Polyglot, source: str, model: str, *, streamed: bool
) -> None:
    asked = ask(world, source, model, streamed=streamed)
    payload = payload_of(world, asked.request_id)
    expected = asked.body.decode().replace(NUMBER, "[redacted]").replace('"u-4711"', '"[redacted]"')
    assert payload["request"] == expected
    assert payload["requestBytes"] == len(asked.body)
    assert payload["responseBytes"] == len(asked.answer)
    assert not payload["requestTruncated"]
    assert not payload["responseTruncated"]
    assert payload["requestHeaders"] == [["user-agent", "payload-test/1"]]
    assert payload["responseHeaders"] == [["x-relay-host", asked.host]]
    stored = json.dumps(payload)
    assert NUMBER not in stored
    assert HOST_SECRET not in stored
    assert "sk-relay-" not in stored
    if NUMBER.encode() not in asked.answer and not streamed:
        assert payload["response"] == asked.answer.decode()
    if streamed:
        assert payload["text"]
        assert NUMBER not in payload["text"]
        events = payload["response"].count("\ndata:")
        assert events == asked.answer.decode().count("\ndata:")
    else:
        assert "text" not in payload or payload["text"] is None


def test_t65_a_number_that_the_answer_repeats_in_pieces_is_not_kept(world: Polyglot) -> None:
    asked = ask(world, "chat", "echo", streamed=True)
    payload = payload_of(world, asked.request_id)
    assert "my name is Ann" in payload["text"]
    assert payload["text"].count("[redacted]") == 1


def test_t65_reading_is_recorded(world: Polyglot) -> None:
    asked = ask(world, "chat", "chat", streamed=False)
    payload_of(world, asked.request_id)
    records = world.admin.get("/audit", params={"target": asked.request_id}).json()["items"]
    assert [(one["action"], one["kind"]) for one in records] == [("read", "payload")]


def test_the_metrics_tell_how_many_payloads_were_captured(world: Polyglot) -> None:
    asked = ask(world, "chat", "chat", streamed=False)
    payload_of(world, asked.request_id)
    text = world.admin.get("/metrics").text
    assert 'relay_payloads_total{result="captured"}' in text
    assert 'relay_payloads_total{result="withheld"} 0' in text
    assert "relay_payload_memory_bytes{" in text
