"""The events of a streamed response, in the order and shape of OpenAI's API reference."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from relay_gateway_provider_echo.reply import Reply
from relay_gateway_provider_echo.speaker import named_event

Event = dict[str, Any]


def response_events(reply: Reply, started: Event, ended: Event) -> Iterator[bytes]:
    """All events; ``started`` and ``ended`` are the response object at either end."""
    for number, event in enumerate(_events(reply, started, ended)):
        yield named_event(event["type"], event | {"sequence_number": number})


def _events(reply: Reply, started: Event, ended: Event) -> Iterator[Event]:
    yield {"type": "response.created", "response": started}
    yield {"type": "response.in_progress", "response": started}
    item = ended["output"][0]
    emptied: Event = {"content": []} if reply.tool is None else {"arguments": ""}
    opened = item | {"status": "in_progress"} | emptied
    yield {"type": "response.output_item.added", "output_index": 0, "item": opened}
    inner = _message_events if reply.tool is None else _call_events
    for event in inner(reply):
        yield event | {"item_id": item["id"], "output_index": 0}
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    yield {"type": f"response.{ended['status']}", "response": ended}


def _message_events(reply: Reply) -> Iterator[Event]:
    part = {"type": "output_text", "annotations": [], "logprobs": []}
    place = {"content_index": 0}
    yield {"type": "response.content_part.added", "part": part | {"text": ""}} | place
    for piece in reply.pieces:
        yield {"type": "response.output_text.delta", "delta": piece, "logprobs": []} | place
    yield {"type": "response.output_text.done", "text": reply.text, "logprobs": []} | place
    yield {"type": "response.content_part.done", "part": part | {"text": reply.text}} | place


def _call_events(reply: Reply) -> Iterator[Event]:
    for piece in reply.pieces:
        yield {"type": "response.function_call_arguments.delta", "delta": piece}
    yield {"type": "response.function_call_arguments.done", "arguments": reply.text}
