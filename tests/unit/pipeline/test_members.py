"""Members of a JSON object are found by name, wherever and however the name stands."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_gateway.errors import RequestRefusedError
from relay_gateway.pipeline.body import read_members
from relay_gateway.pipeline.members import TooManyError, find_members

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.sampled_from(["model", "x", ""]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["model", "Model", "\\model", "x"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["model", "x", "y", '"model', "ab"]), JSON), st.booleans())
def test_a_member_has_exact_bounds(members: dict[str, Any], indented: bool) -> None:
    body = json.dumps(members, indent=1 if indented else None).encode()
    found = find_members(body, "model")
    assert [member.name for member in found] == [name for name in members if name == "model"]
    for member in found:
        assert json.loads(body[member.start : member.end]) == members["model"]


def test_duplicates_are_found_in_order_with_their_own_values() -> None:
    body = b'{"a":{"model":0},"model" : 1 ,"model":[2],"mo\\u0064el":"3"}'
    found = find_members(body, "model")
    assert [body[member.start : member.end] for member in found] == [b"1", b"[2]", b'"3"']


def test_other_cases_are_found_only_when_asked_for() -> None:
    body = b'{"MODEL":1,"\\u004dodel":2,"model":3}'
    names = [member.name for member in find_members(body, "model", any_case=True)]
    assert names == ["MODEL", "Model", "model"]
    assert [member.name for member in find_members(body, "model")] == ["model"]


def test_members_are_found_among_many_other_places() -> None:
    body = b'{"x":[%b0],"model":1,"y":[%b0],"model":2}' % (b'"model",' * 500, b'"model",' * 500)
    assert [body[member.start : member.end] for member in find_members(body, "model")] == [
        b"1",
        b"2",
    ]


def test_a_name_in_too_many_places_is_refused() -> None:
    body = b'{"x":[%b0]}' % (b'"model",' * 2_000_000)
    with pytest.raises(TooManyError, match="more than 256 places"):
        find_members(body, "model")


@pytest.mark.parametrize(
    "before",
    [
        b'{"model":"m","s":"\\u0041","x":[',
        b'{"model":"m","s":{"model":1},"x":[',
        b'{"model":"m","x":[%b' % (b'"model",' * 126),
    ],
)
def test_t32_a_body_of_eleven_million_arrays_does_not_hold_up_the_others(before: bytes) -> None:
    body = before + b"[]," * 11_000_000 + b"0]}"
    began = time.process_time()
    assert read_members(body)[:2] == ("m", False)
    assert time.process_time() - began < 2.0


def test_t33_a_body_full_of_models_is_refused_at_once() -> None:
    body = b'{"model":"m","x":[' + b'"model",' * 4_000_000 + b"0]}"
    with pytest.raises(RequestRefusedError) as refused:
        read_members(body)
    assert refused.value.code == "ambiguous_body"
