"""Request bodies are read partially and changed only where they must be."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_gateway.errors import RequestRefusedError
from relay_gateway.pipeline.body import ask_for_usage, read_members, replace_model
from relay_gateway.plugin import UsageOption

OPTION = UsageOption("stream_options", "include_usage")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


BOTH_READERS = pytest.mark.parametrize("small", [0, 1_000_000])


@BOTH_READERS
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"model":"m"}', ("m", False)),
        (b' {"stream" : true, "model" : "a/b:c" }', ("a/b:c", True)),
        (b'{"model":"m","stream":null}', ("m", False)),
        (b'{"messages":[{"model":"inner"}],"model":"m"}', ("m", False)),
        (b'{"model":"m","x":"\\u0041"}', ("m", False)),
        (b'{"x":"\\"model\\"","model":"m"}', ("m", False)),
        (b'{"role":"model","model":"m"}', ("m", False)),
    ],
)
def test_model_and_stream_are_read(body: bytes, expected: tuple[str, bool], small: int) -> None:
    assert read_members(body, small)[:2] == expected


@BOTH_READERS
@pytest.mark.parametrize(
    ("body", "names"),
    [
        (b'{"model":"m","messages":[]}', "messages model"),
        (b'{"stream": true, "model": "m", "messages": [], "n": 1}', "messages model n stream"),
        (b' {\n  "user": "\\"model\\"",\n  "n": 12,\n  "model": "m"\n}\n', "model n user"),
        (b'{"model":"m","user":{"Model":1,"model":"x","stream":1},"n":-1e9}', "model n user"),
    ],
)
def test_the_members_of_a_plain_body_are_known_without_a_search(
    body: bytes, names: str, small: int
) -> None:
    members = read_members(body, small)[2]
    assert members is not None
    assert sorted(members) == names.split()


@BOTH_READERS
@pytest.mark.parametrize(
    "body",
    [
        # What the decoder found last is as long as a piece of what it found first, or begins it.
        b'{"stream":{"":1,"model":"good"},"n":1,"model":"good","stream":false}',
        b'{"model":"m","user":{"":1,"stop":0},"seed":"abc","user":false,"stop":{"p":"%s"%s,"seed":1234}}'
        % (b"p" * 44, b" " * 24),
        b'{"n":12,"model":"m"         ,"n":1}',
        b'{"n":1          ,"model":"m","n":12}',
        b'{"user":["a","model"],"model":"m","user":["a"],            "n":1}',
        b'{"n":"1","n":"1","model":"m"}',
        b'{ "model":"m","n\\u0061me":"a long value", "user" : "me" }',
    ],
)
def test_members_that_are_there_twice_or_spelled_otherwise_are_not_taken_for_known(
    body: bytes, small: int
) -> None:
    assert json.loads(body)["model"] in ("m", "good")
    try:
        assert read_members(body, small)[2] is None
    except RequestRefusedError as refused:
        assert refused.code == "ambiguous_body"


@BOTH_READERS
@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        (b"", "invalid_request", None),
        (b"{", "invalid_request", None),
        (b"[]", "invalid_request", None),
        (b'"model"', "invalid_request", None),
        (b'{"model":"m"} trailing', "invalid_request", None),
        (b'\xff\xfe{\x00"', "invalid_request", None),
        (b'{"model":"\xff"}', "invalid_request", None),
        (b"{}", "invalid_request", "model"),
        (b'{"model":1}', "invalid_request", "model"),
        (b'{"model":null}', "invalid_request", "model"),
        (b'{"model":["m"]}', "invalid_request", "model"),
        (b'{"model":{"m":1}}', "invalid_request", "model"),
        (b'{"model":""}', "invalid_request", "model"),
        (b'{"model":"a\\u0000b"}', "invalid_request", "model"),
        (b'{"model":"%s"}' % (b"m" * 257), "invalid_request", "model"),
        (b'{"model":"m","stream":"yes"}', "invalid_request", "stream"),
        (b'{"model":"m","stream":1}', "invalid_request", "stream"),
        (b'{"model":"m","x":NaN}', "invalid_request", None),
        (b'{"model":"m","x":"\xff"}', "invalid_request", None),
        (b'{"model":"m","\xed\xa0\x80":{"model":1}}', "invalid_request", None),
        (b'{"model":"m","x":"%s\xc3"}' % (b"\xc3\xa9" * 40_000), "invalid_request", None),
        (b'{"model":"m","x":' + b"[" * 100_000, "invalid_request", None),
    ],
)
def test_t32_a_bad_body_is_refused_with_the_field(
    body: bytes, code: str, param: str | None, small: int
) -> None:
    with pytest.raises(RequestRefusedError) as refused:
        read_members(body, small)
    assert (refused.value.status, refused.value.code) == (400, code)
    assert refused.value.param == param


@BOTH_READERS
@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"a","model":"b"}',
        b'{"messages":[], "model":"a", "model":"a"}',
        b'{ "messages" : [] , "model" : "a" , "MODEL" : "a" }',
        b'{"model":"a","Model":"b"}',
        b'{"MODEL":"a","model":"b"}',
        b'{"model":"a","mod\\u0065l":"b"}',
        b'{"\\u006dodel":"a","model":"a"}',
        b'{"model":"a","x":{"model":1},"model":"b"}',
        b'{"model":"a","stream":true,"stream":false}',
        b'{"model":"a","stream":true,"\\u0073tream":false}',
    ],
)
def test_t33_duplicate_escaped_or_case_variant_models_are_ambiguous(
    body: bytes, small: int
) -> None:
    with pytest.raises(RequestRefusedError) as refused:
        read_members(body, small)
    assert (refused.value.status, refused.value.code) == (400, "ambiguous_body")


@given(st.dictionaries(st.text(), JSON, max_size=6), st.booleans())
def test_t33_the_model_is_found_wherever_it_stands(
    members: dict[str, Any], ascii_only: bool
) -> None:
    others = {name: value for name, value in members.items() if name.casefold() != "model"}
    others.pop("stream", None)
    body = json.dumps({**others, "model": "the-model"}, ensure_ascii=ascii_only)
    try:
        encoded = body.encode()
    except UnicodeEncodeError:
        return
    try:
        for small in (0, len(encoded)):
            assert read_members(encoded, small)[:2] == ("the-model", False)
    except RequestRefusedError as refused:  # a lone surrogate is not JSON for everybody
        assert refused.code == "invalid_request"
        assert "\\ud" in body


@given(st.dictionaries(st.text(), JSON, max_size=6))
def test_only_the_value_of_model_changes(members: dict[str, Any]) -> None:
    body = json.dumps({**members, "model": "old"}).encode()
    changed = replace_model(body, 'new "name"')
    assert json.loads(changed) == {**members, "model": 'new "name"'}
    assert len(changed) - len(body) == len('"new \\"name\\""') - len('"old"')


@pytest.mark.parametrize(
    ("body", "options", "withheld"),
    [
        (b'{"model":"m"}', {"include_usage": True}, True),
        (b' { "model":"m"}', {"include_usage": True}, True),
        (b'{"model":"m","stream_options":null}', {"include_usage": True}, True),
        (b'{"stream_options":{},"model":"m"}', {"include_usage": True}, True),
        (b'{"stream_options":{"a":1},"model":"m"}', {"a": 1, "include_usage": True}, True),
        (b'{"stream_options":{"include_usage":false}}', {"include_usage": True}, True),
        (b'{"stream_options":{"include_usage":true}}', {"include_usage": True}, False),
        (b'{"model":"m","x":"stream_options"}', {"include_usage": True}, True),
        (b'{"x":{"stream_options":{"include_usage":true}}}', {"include_usage": True}, True),
    ],
)
def test_usage_is_asked_for_and_withheld_when_the_caller_did_not(
    body: bytes, options: dict[str, Any], withheld: bool
) -> None:
    changed, withhold = ask_for_usage(body, OPTION)
    assert json.loads(changed)["stream_options"] == options
    assert {k: v for k, v in json.loads(changed).items() if k != "stream_options"} == {
        k: v for k, v in json.loads(body).items() if k != "stream_options"
    }
    assert withhold is withheld
    if not withheld:
        assert changed == body


def test_t33_the_member_itself_is_replaced_and_not_one_further_down() -> None:
    body = b'{"x":{"model":"inner"},"mod\\u0065l":"outer"}'
    assert replace_model(body, "new") == body.replace(b'"outer"', b'"new"')


def test_t39_usage_is_asked_for_however_the_caller_spells_the_option() -> None:
    body = b'{"stream\\u005foptions":{"include_usage":false},"model":"m"}'
    changed, withhold = ask_for_usage(body, OPTION)
    assert json.loads(changed)["stream_options"] == {"include_usage": True}
    assert withhold


def test_t39_an_option_that_is_given_twice_is_refused() -> None:
    body = b'{"stream_options":{"include_usage":true},"stream_options":{}}'
    with pytest.raises(RequestRefusedError) as refused:
        ask_for_usage(body, OPTION)
    assert (refused.value.code, refused.value.param) == ("ambiguous_body", "stream_options")


def test_an_option_of_another_type_is_refused() -> None:
    with pytest.raises(RequestRefusedError) as refused:
        ask_for_usage(b'{"stream_options":[1]}', OPTION)
    assert refused.value.param == "stream_options"
