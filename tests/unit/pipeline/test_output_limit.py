"""How many tokens of answer a request may have."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_gateway.errors import RequestRefusedError
from relay_gateway.pipeline.estimate import input_tokens, output_tokens
from relay_gateway.pipeline.output_limit import asked_output, bounded_output, refuse_more
from relay_gateway.pipeline.rate_headers import duration
from relay_gateway.plugin import WireFormat
from relay_gateway.testing.world import PipelineWorld, json_answer


class Flat(WireFormat):
    output_limits: ClassVar[tuple[str, ...]] = ("most", "max")


class Nested(WireFormat):
    output_limits: ClassVar[tuple[str, ...]] = ("options.most",)


@pytest.mark.parametrize(
    ("body", "asked"),
    [
        (b'{"most":5}', 5),
        (b'{"max":7,"most":5}', 7),
        (b'{"m\\u006fst":5}', 5),
        (b'{"most":null}', None),
        (b'{"most":true}', None),
        (b'{"most":"5"}', None),
        (b'{"other":{"most":5}}', None),
        (b'{"text":"most"}', None),
        (b'{"most":5,"most":6}', None),
        (b'{"most"', None),
        (b"\x1f\x8b most", None),
        (b"{}", None),
    ],
)
def test_what_is_asked_for_is_read(body: bytes, asked: int | None) -> None:
    assert asked_output(Flat(), body) == asked


def test_a_member_of_a_member_is_read_there_alone() -> None:
    assert asked_output(Nested(), b'{"options":{"most":5},"most":9}') == 5
    assert asked_output(Nested(), b'{"options":null}') is None
    assert asked_output(Nested(), b'{"options":[1],"most":9}') is None
    assert asked_output(Nested(), b'{"options":{"other":{"most":5}}}') is None


class Nest(WireFormat):
    output_limits: ClassVar[tuple[str, ...]] = ("options.most", "options.max", "max", "most")


names = st.sampled_from(["options", "most", "max", "other"])
anything = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 9) | st.sampled_from(["most", "max", "\u00e9"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(names, anything, max_size=4), st.booleans())
def test_what_is_read_is_what_the_body_says(body: dict[str, Any], escaped: bool) -> None:
    inner = body.get("options")
    said = [body.get("max"), body.get("most")]
    if isinstance(inner, dict):
        said += [inner.get("most"), inner.get("max")]
    asked = [one for one in said if type(one) is int and one >= 0]
    text = json.dumps(body, ensure_ascii=escaped).encode()
    assert asked_output(Nest(), text) == max(asked, default=None)


def test_members_may_share_what_is_around_them() -> None:
    assert asked_output(Nest(), b'{"options":{"max":5}}') == 5
    assert asked_output(Nest(), b'{"options":{"most":3,"max":7}}') == 7
    assert asked_output(Nest(), b'{"max":9,"options":{"most":3}}') == 9
    assert asked_output(Nest(), b'{"max":2,"options":{"max":6}}') == 6


@pytest.mark.parametrize(
    ("wire_format", "body", "bounded"),
    [
        (Flat(), b'{"model":"m"}', {"model": "m", "most": 10}),
        (Flat(), b"{ }", {"most": 10}),
        (Flat(), b'{"most":null,"a":1}', {"most": 10, "a": 1}),
        (Flat(), b'{"most":3}', {"most": 3}),
        (Flat(), b'{"max":10}', {"max": 10}),
        (Nested(), b'{"a":1}', {"a": 1, "options": {"most": 10}}),
        (Nested(), b'{"options":{}}', {"options": {"most": 10}}),
        (Nested(), b'{"options":{"a":1}}', {"options": {"a": 1, "most": 10}}),
        (Nested(), b'{"options":null}', {"options": {"most": 10}}),
        (Nested(), b'{"options":{"most":null}}', {"options": {"most": 10}}),
        (WireFormat(), b"\x00", None),
    ],
)
def test_a_request_without_a_bound_is_given_one(
    wire_format: WireFormat, body: bytes, bounded: dict[str, Any] | None
) -> None:
    found = bounded_output(wire_format, body, 10, "p")
    assert found == body if bounded is None else json.loads(found) == bounded


@pytest.mark.parametrize(
    ("body", "code", "says"),
    [
        (b'{"most":11}', "invalid_request", "most is 11, and the policy 'p' allows at most 10"),
        (b'{"most":1,"max":11}', "invalid_request", "max is 11"),
        (b'{"most":1e9}', "invalid_request", "most must be a whole number"),
        (b'{"most":"5"}', "invalid_request", "most must be a whole number"),
        (b'{"most":1,"most":2}', "ambiguous_body", "more than once"),
        (b'{"most"', "invalid_request", "not valid JSON"),
    ],
)
def test_a_request_that_wants_more_or_cannot_be_read_is_refused(
    body: bytes, code: str, says: str
) -> None:
    with pytest.raises(RequestRefusedError, match=says) as caught:
        bounded_output(Flat(), body, 10, "p")
    assert (caught.value.status, caught.value.code) == (400, code)


def test_a_body_that_must_stay_as_it_is_is_refused_or_left_alone() -> None:
    refuse_more(Flat(), b"\x1f\x8b", 10, "p")
    refuse_more(Flat(), b'{"a":1}', 10, "p")
    with pytest.raises(RequestRefusedError):
        refuse_more(Flat(), b'{"most":11}', 10, "p")


async def test_the_upstream_is_told_the_maximum_of_the_policy_or_the_model(
    world: PipelineWorld,
) -> None:
    world.change(world.policy, maxOutputTokens=50)
    await world.run(world.caller(), json_answer())
    assert json.loads(world.client.sent[-1][1].body)["max_tokens"] == 50
    world.records.clear()
    world.change(world.model, maxOutputTokens=20)
    await world.run(world.caller(), json_answer())
    assert json.loads(world.client.sent[-1][1].body)["max_tokens"] == 20
    world.records.clear()
    caller = world.caller(b'{"model":"m","max_tokens":51}')
    await world.run(caller)
    assert (caller.status, json.loads(caller.body)["error"]["param"]) == (400, "max_tokens")


async def test_without_a_maximum_of_the_policy_the_body_stays_as_it_is(
    world: PipelineWorld,
) -> None:
    world.change(world.model, maxOutputTokens=20)
    await world.run(world.caller(b'{"model":"m","max_tokens":999}'), json_answer())
    assert world.client.sent[-1][1].body == b'{"model":"m","max_tokens":999}'


def test_embedded_files_are_not_counted_by_their_bytes() -> None:
    picture = b"iVBORw0KGgo" * 10_000
    body = b'{"image":"data:image/png;base64,%b","text":"%b"}' % (picture, b"word " * 400)
    assert 1400 < input_tokens(body) < 1700
    assert input_tokens(b"{}") == 1
    assert input_tokens(b"x" * 4000) == 1000


def test_without_anything_said_an_answer_is_expected_to_be_this_long() -> None:
    assert output_tokens(None, None, None) == 4096
    assert output_tokens(7, None, None) == 7


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, b"0ms"),
        (-1.0, b"0ms"),
        (0.017, b"17ms"),
        (1.0, b"1s"),
        (7.66, b"7.66s"),
        (60.0, b"1m0s"),
        (86.4, b"1m26.4s"),
        (3600.0, b"1h0m0s"),
        (86_400.25, b"24h0m0.25s"),
    ],
)
def test_times_are_written_as_clients_know_them(seconds: float, text: bytes) -> None:
    assert duration(seconds) == text
