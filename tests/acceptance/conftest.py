"""Both planes up in a process of their own, on SQLite and again on PostgreSQL."""

from __future__ import annotations

import base64
import secrets
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from relay_gateway.testing.canary import Canary
from relay_gateway.testing.http_tap import watching
from relay_gateway.testing.ledger import SeenRequest
from relay_gateway.testing.postgres import PostgresServer
from relay_gateway.testing.scenario import Scenario, running_scenario
from relay_gateway.testing.script import Script, json_response, sse_event, sse_response
from relay_gateway.testing.watch import Watch

HERE = Path(__file__).parent
WATCH = Watch()

CHAT_USAGE = {
    "prompt_tokens": 12,
    "completion_tokens": 4,
    "total_tokens": 16,
    "prompt_tokens_details": {"cached_tokens": 2},
}
MESSAGE_USAGE = {
    "input_tokens": 9,
    "cache_read_input_tokens": 3,
    "cache_creation_input_tokens": 0,
    "output_tokens": 5,
}


def chat(request: SeenRequest) -> Script:
    """A chat completion as the real API words it; usage in a stream only when it was asked for."""
    body: dict[str, Any] = request.json()
    common: dict[str, Any] = {"id": "chatcmpl-1", "created": 1, "model": "upstream-model-2026"}
    if "service_tier" in body:
        common["service_tier"] = body["service_tier"]
    if not body.get("stream"):
        message = {"role": "assistant", "content": "Hello there"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        whole = {**common, "object": "chat.completion", "choices": [choice], "usage": CHAT_USAGE}
        return json_response(200, whole)
    part: dict[str, Any] = {**common, "object": "chat.completion.chunk"}
    deltas = [{"role": "assistant", "content": ""}, {"content": "Hello"}, {"content": " there"}]
    events = [
        sse_event({**part, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        for delta in deltas
    ]
    last = {"index": 0, "delta": {}, "finish_reason": "stop"}
    events.append(sse_event({**part, "choices": [last]}))
    if (body.get("stream_options") or {}).get("include_usage"):
        events.append(sse_event({**part, "choices": [], "usage": CHAT_USAGE}))
    return sse_response([*events, sse_event("[DONE]")])


def embeddings(request: SeenRequest) -> Script:
    """One vector, in base64 when it was asked for so."""
    encoded = base64.b64encode(b"\x00\x00\x80?\x00\x00\x00\x00").decode()
    vector = encoded if request.json().get("encoding_format") == "base64" else [1.0, 0.0]
    data = [{"object": "embedding", "index": 0, "embedding": vector}]
    usage = {"prompt_tokens": 7, "total_tokens": 7}
    return json_response(200, {"object": "list", "data": data, "model": "embed-1", "usage": usage})


def messages(request: SeenRequest) -> Script:
    """A message, whole or as the six kinds of events."""
    message: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-upstream",
        "content": [{"type": "text", "text": "Hello there"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": MESSAGE_USAGE,
    }
    if not request.json().get("stream"):
        return json_response(200, message)
    begin: dict[str, Any] = {**message, "content": [], "stop_reason": None}
    begin["usage"] = {**MESSAGE_USAGE, "output_tokens": 1}
    block = {"type": "text", "text": ""}
    delta = {"type": "text_delta", "text": "Hello there"}
    stop = {"stop_reason": "end_turn", "stop_sequence": None}
    named: list[dict[str, Any]] = [
        {"type": "message_start", "message": begin},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "ping"},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ]
    return sse_response([sse_event(event, event=str(event["type"])) for event in named])


def responses(request: SeenRequest) -> Script:
    """A response, whole or as events."""
    text = {"type": "output_text", "text": "Hello there", "annotations": []}
    item = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [text],
    }
    usage = {
        "input_tokens": 11,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 6,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 17,
    }
    whole = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "upstream-model-2026",
        "status": "completed",
        "output": [item],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": usage,
    }
    if not request.json().get("stream"):
        return json_response(200, whole)
    started: dict[str, Any] = {**whole, "status": "in_progress", "output": [], "usage": None}
    delta = {"item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": "Hello there"}
    named: list[dict[str, Any]] = [
        {"type": "response.created", "sequence_number": 0, "response": started},
        {"type": "response.output_text.delta", "sequence_number": 1, "logprobs": [], **delta},
        {"type": "response.completed", "sequence_number": 2, "response": whole},
    ]
    return sse_response([sse_event(event, event=str(event["type"])) for event in named])


ROUTES: dict[str, Callable[[SeenRequest], Script]] = {
    "/v1/chat/completions": chat,
    "/v1/embeddings": embeddings,
    "/v1/messages": messages,
    "/v1/responses": responses,
    "/v1/completions": lambda _: json_response(
        200,
        {
            "id": "cmpl-1",
            "object": "text_completion",
            "created": 1,
            "model": "upstream-model-2026",
            "choices": [{"index": 0, "text": "Hello", "finish_reason": "stop", "logprobs": None}],
            "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4},
        },
    ),
    "/v1/messages/count_tokens": lambda _: json_response(200, {"input_tokens": 12}),
}


def providers(request: SeenRequest) -> Script:
    """All endpoints of both providers behind one address."""
    route = ROUTES.get(request.target)
    if route is None:
        return json_response(404, {"error": {"message": f"no {request.target}", "type": "x"}})
    return route(request)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    with watching(WATCH) if item.path.is_relative_to(HERE) else nullcontext():
        return (yield)


@pytest.fixture(scope="session", autouse=True)
def watch() -> Iterator[Watch]:
    """At the end of the run nothing that any gateway left, printed or answered has a credential."""
    yield WATCH
    WATCH.judge()


@pytest.fixture(scope="session")
def postgres_server(postgres_server: PostgresServer, watch: Watch) -> PostgresServer:
    """The server of the run, whose databases are searched, too."""
    watch.dump = postgres_server.dump
    return postgres_server


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> dict[str, str]:
    """Environment that puts the gateway on the one database, then on the other."""
    if request.param == "sqlite":
        return {}
    return {"RELAY_DATABASE_URL": request.getfixturevalue("postgres_url")}


@pytest.fixture
async def scenario(database: dict[str, str], tmp_path: Path) -> AsyncIterator[Scenario]:
    """A running gateway; the environment carries one provider credential, a canary like the
    rest."""
    canary = Canary()
    environ = {
        **database,
        "ACME_API_KEY": canary.secret("env host key", prefix="sk-"),
        "RELAY_ADMIN_TOKEN": canary.secret("admin token"),
        "RELAY_MASTER_KEY": canary.adopt(
            "master key", base64.b64encode(secrets.token_bytes(32)).decode()
        ),
    }
    async with running_scenario(tmp_path, providers, environ, canary) as scenario:
        yield scenario
