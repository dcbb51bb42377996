"""Thoughts that another provider signed stay with the caller, and never reach a host that cannot
read them, whichever way it is asked."""

from __future__ import annotations

from relay_gateway.plugin.canonical import SEAL_PREFIX, Message, Reasoning, Text
from relay_gateway.testing.conversations import request
from relay_gateway.testing.polyglot import Polyglot
from relay_gateway.testing.speakers.scene import SIGNATURE, THOUGHT

from .spoken import ASKERS, BOTH_WAYS, UNLIKE_PAIRS

FIELDS = {
    "chat": "messages[].reasoning",
    "responses": "input[]",
    "messages": "messages[].content[].thinking",
    "gemini": "contents[].parts[].thought",
}
FIRST = request(Message("user", (Text("think"),)), max_output_tokens=4096)


@UNLIKE_PAIRS
@BOTH_WAYS
def test_a_seal_never_reaches_a_host_of_the_callers_own_format(
    world: Polyglot, source: str, target: str, *, streamed: bool
) -> None:
    asker = ASKERS[source]
    told = asker.read(asker.ask(world, target, FIRST), streamed=False)
    assert [part for part in told.parts if isinstance(part, Reasoning)]
    turns = (
        *FIRST.messages,
        Message("assistant", told.parts),
        Message("user", (Text("Go on"),)),
    )
    # As a client gives the answer back: with the seal in the place of a signature.
    body = asker.body(source, request(*turns, stream=streamed, max_output_tokens=4096))
    assert SEAL_PREFIX.encode() in body
    answer = asker.send(world, source, body, streamed=streamed)
    assert asker.read(answer, streamed=streamed).stop is not None
    seen = world.ledger[-1].body
    assert SEAL_PREFIX.encode() not in seen
    assert SIGNATURE.encode() not in seen
    assert b"Go on" in seen
    assert answer.headers["x-relay-dropped-params"].startswith(FIELDS[source])


@UNLIKE_PAIRS
def test_what_holds_no_seal_reaches_such_a_host_byte_for_byte(
    world: Polyglot, source: str, target: str
) -> None:
    asker = ASKERS[source]
    told = asker.read(asker.ask(world, source, FIRST), streamed=False)
    turns = (*FIRST.messages, Message("assistant", told.parts), Message("user", (Text(target),)))
    body = asker.body(source, request(*turns, max_output_tokens=4096))
    answer = asker.send(world, source, body, streamed=False)
    assert answer.status == 200
    assert "x-relay-dropped-params" not in answer.headers
    assert world.ledger[-1].body == body
    assert THOUGHT.encode() in body or source == "gemini"
