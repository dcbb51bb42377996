"""The parts that codecs are made of: sealed blobs, members, the sequencer, the end of JSON."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_gateway.errors import RequestRefusedError, UpstreamProtocolError
from relay_gateway.plugin.canonical import (
    SEAL_PREFIX,
    ArgumentsDelta,
    Blob,
    Finished,
    PartStarted,
    PartStopped,
    Stop,
    StopKind,
    StreamEvent,
    Text,
    TextDelta,
    ToolCall,
    seal,
    unseal,
)
from relay_gateway.plugin.codec import without_indices
from relay_gateway.plugin.members import Members, parse_object
from relay_gateway.plugin.sequencer import MAX_HELD, JsonEnd, Sequencer

_plain = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.builds(Blob, _plain, _plain, _plain, _plain))
def test_a_sealed_blob_is_the_same_blob_again(blob: Blob) -> None:
    sealed = seal(blob)
    assert unseal(sealed) == blob
    assert sealed.isascii()
    assert unseal(seal(Blob("outer.talk", sealed))) == Blob("outer.talk", sealed)


@given(_plain)
def test_what_was_not_sealed_here_is_left_alone(text: str) -> None:
    assert unseal(text) is None
    assert unseal(SEAL_PREFIX + text) is None or text


@pytest.mark.parametrize("text", ["", "é", "Ww==", "!!!!"])
def test_a_damaged_seal_is_nobodys(text: str) -> None:
    assert unseal(SEAL_PREFIX + text) is None


def test_a_seal_survives_a_client_that_decodes_and_encodes_it() -> None:
    blob = Blob("acme.talk", "".join(chr(code) for code in range(32, 512)))
    sealed = seal(blob)
    for_urls = base64.urlsafe_b64encode(base64.b64decode(sealed)).decode()
    assert for_urls != sealed
    assert (unseal(sealed), unseal(for_urls)) == (blob, blob)


def test_members_are_taken_once_and_the_rest_is_known() -> None:
    value = {"a": "x", "b": None, "c": [1], "d": 2.0}
    members = Members(value, "body")
    assert members.text("a") == "x"
    assert members.text("b") is None
    assert members.integer("d") == 2
    assert members.left() == {"c": [1]}
    assert value == {"a": "x", "b": None, "c": [1], "d": 2.0}, "what is read is not changed"


@pytest.mark.parametrize(
    ("read", "message"),
    [
        ("text", "messages[0].x must be a string, not a list"),
        ("integer", "messages[0].x must be an integer, not a list"),
        ("number", "messages[0].x must be a number, not a list"),
        ("flag", "messages[0].x must be true or false, not a list"),
        ("mapping", "messages[0].x must be an object, not a list"),
        ("child", "messages[0].x must be an object, not a list"),
        ("texts", "messages[0].x[0] must be a string, not an integer"),
    ],
)
def test_a_member_of_another_type_is_refused_with_its_place(read: str, message: str) -> None:
    with pytest.raises(RequestRefusedError) as refused:
        getattr(Members({"x": [1]}, "messages[0]"), read)("x")
    assert refused.value.message == message
    assert refused.value.param == message.partition(" ")[0]


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b"[" * 100_000])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(RequestRefusedError) as refused:
        parse_object(body)
    assert refused.value.status == 400


def test_paths_are_compared_without_their_indices() -> None:
    assert without_indices("messages[12].content[0].x") == "messages[].content[].x"
    assert without_indices("tools") == "tools"


def started(index: int) -> PartStarted:
    return PartStarted(index, ToolCall(str(index), "f", ""))


def test_parts_that_overlap_come_out_one_after_the_other() -> None:
    events: list[StreamEvent] = [
        started(0),
        started(1),
        ArgumentsDelta(1, "b"),
        started(2),
        PartStopped(2),
        ArgumentsDelta(0, "a"),
        PartStopped(1),
        PartStopped(0),
        Finished(Stop(StopKind.END)),
    ]
    sequencer = Sequencer()
    ordered = [each for event in events for each in sequencer.feed(event)]
    indices = [event.index for event in ordered if not isinstance(event, Finished)]  # type: ignore[union-attr]
    assert indices == sorted(indices)
    assert sorted(map(repr, ordered)) == sorted(map(repr, events))
    assert isinstance(ordered[-1], Finished)


def test_what_is_held_back_has_a_limit() -> None:
    sequencer = Sequencer()
    sequencer.feed(started(0))
    sequencer.feed(started(1))
    with pytest.raises(UpstreamProtocolError):
        sequencer.feed(ArgumentsDelta(1, "x" * (MAX_HELD + 1)))


def test_text_that_follows_a_part_passes_at_once() -> None:
    sequencer = Sequencer()
    events: list[StreamEvent] = [PartStarted(0, Text("")), TextDelta(0, "a"), PartStopped(0)]
    for event in events:
        assert sequencer.feed(event) == [event]


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), _json), st.integers(1, 5))
def test_the_end_of_an_object_is_seen_exactly_when_it_is_there(
    value: dict[str, object], piece: int
) -> None:
    text = json.dumps(value)
    end = JsonEnd()
    for start in range(0, len(text), piece):
        assert not end.complete
        end.feed(text[start : start + piece])
    assert end.complete
