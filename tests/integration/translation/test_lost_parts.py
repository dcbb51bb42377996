"""What an answer has and the caller's format has no place for is named to the caller."""

from __future__ import annotations

from typing import Any

import pytest

from relay_gateway.plugin.canonical import Message, Text
from relay_gateway.testing.conversations import request
from relay_gateway.testing.polyglot import Polyglot
from relay_gateway.testing.script import json_response

from .spoken import ASKERS

ASKED = request(Message("user", (Text("Hello"),)), max_output_tokens=256)
FOUND: list[dict[str, Any]] = [
    {"type": "server_tool_use", "id": "s_1", "name": "web_search", "input": {}},
    {"type": "text", "text": "Hi", "citations": [{"type": "char_location"}]},
    {"type": "of a host's\r\nx-own: 1", "x": 1},
]


@pytest.mark.parametrize("source", ["chat", "responses", "gemini"])
def test_parts_of_a_whole_answer_that_cannot_be_told_are_named(
    world: Polyglot, source: str
) -> None:
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": FOUND,
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    world.upstream.enqueue(json_response(200, message))
    answer = ASKERS[source].ask(world, "messages", ASKED)
    assert ASKERS[source].read(answer, streamed=False).parts == (Text("Hi"),)
    named = answer.headers["x-relay-dropped-params"].split(", ")
    # What is no word does not get into a header.
    assert named == ["answer.content[].server_tool_use", "answer.content[].citations"]
    assert "x-own" not in answer.headers


def test_nothing_is_named_where_nothing_is_lost(world: Polyglot) -> None:
    answer = ASKERS["chat"].ask(world, "messages", ASKED)
    assert "x-relay-dropped-params" not in answer.headers
