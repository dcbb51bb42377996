"""The model of a body that passes by is the one that a parser finds in the whole of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_gateway.errors import RequestRefusedError
from relay_gateway.pipeline import model_scan
from relay_gateway.pipeline.body import read_model
from relay_gateway.pipeline.model_scan import ModelScan

NAMES = st.sampled_from(["model", "Model", "mode", "models", 'mo"del', "\\", "m\u00e4", ""])
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from(["model"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
MEMBERS = st.lists(st.tuples(NAMES, VALUES), max_size=5)


def scan(body: bytes, cut: int = 1 << 30) -> str | None:
    one = ModelScan()
    for start in range(0, len(body), cut):
        one.feed(body[start : start + cut])
    one.finish()
    return one.model


def spelled(members: list[tuple[str, Any]], *, ascii_only: bool) -> bytes:
    pairs = (f"{json.dumps(n)} :{json.dumps(v, ensure_ascii=ascii_only)}" for n, v in members)
    return f" {{{', '.join(pairs)}}}\n".encode()


def outcome(read: Any, *arguments: Any) -> tuple[str, str | None]:
    try:
        return "read", read(*arguments)
    except RequestRefusedError as error:
        return error.code, None


@given(MEMBERS, st.booleans(), st.integers(1, 40))
def test_t33_the_scan_judges_as_the_reader_of_whole_bodies(
    members: list[tuple[str, Any]], ascii_only: bool, cut: int
) -> None:
    body = spelled(members, ascii_only=ascii_only)
    whole, passing = outcome(read_model, body), outcome(scan, body, cut)
    if whole[0] == "read":
        assert passing == whole
    else:
        assert passing[0] != "read"


@pytest.mark.parametrize("cut", [1, 2, 3, 5, 1000])
def test_the_model_is_found_wherever_the_body_is_cut(cut: int) -> None:
    body = rb'{"a":"\\\"model\":","b":{"model":"x"},"c":["model","y"],"mod\u0065l":"m\u00e4\/"}'
    assert scan(body, cut) == "mä/"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'{"model":"a","model":"b"}', "ambiguous_body"),
        (rb'{"model":"a","mod\u0065l":"b"}', "ambiguous_body"),
        (b'{"Model":"a"}', "ambiguous_body"),
        (b'{"model":"a" "b"}', "ambiguous_body"),
        (b'{"model":1}', "invalid_request"),
        (b'{"model":null}', "invalid_request"),
        (b'{"model":["a"]}', "invalid_request"),
        (b'{"model":{"a":"b"}}', "invalid_request"),
        (b'{"model":""}', "invalid_request"),
        (b'{"model":"%b"}' % (b"a" * 257), "invalid_request"),
        (b'{"model":"a"}{"model":"b"}', "invalid_request"),
        (b'["model"]', "invalid_request"),
        (b'\xef\xbb\xbf{"model":"a"}', "invalid_request"),
        (b'{"model":"a"', "invalid_request"),
        (b'{"x', "invalid_request"),
        (b"", "invalid_request"),
    ],
)
def test_t33_what_two_readers_could_take_differently_is_refused(body: bytes, code: str) -> None:
    for cut in (1, 2, 1000):
        assert outcome(scan, body, cut)[0] == code


def test_a_body_may_name_no_model() -> None:
    assert scan(b'{"input":"x"}') is None


def test_t32_a_body_of_too_many_brackets_is_refused_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(model_scan, "MAX_TOKENS", 1000)
    with pytest.raises(RequestRefusedError, match="too many"):
        scan(b'{"a":' + b"[" * 2000)
