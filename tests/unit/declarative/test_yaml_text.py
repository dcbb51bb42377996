"""YAML as manifests use it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_gateway.declarative.yaml_text import (
    MAX_DEPTH,
    MAX_NODES,
    read_documents,
    write_documents,
)

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
NUMBERS = st.integers(-(1 << 63), (1 << 64) - 1) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS | st.sampled_from(["no", "1e3", "~", "0x1", "<<"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


def only(text: str) -> Any:
    (document,) = read_documents(text.encode())
    assert document.faults == ()
    return document.value


def faults(text: str | bytes) -> list[tuple[int, str]]:
    content = text.encode() if isinstance(text, str) else text
    return [
        (fault.line, fault.field)
        for document in read_documents(content)
        for fault in document.faults
    ]


@given(st.lists(st.dictionaries(TEXTS, VALUES, min_size=1, max_size=4), max_size=3))
def test_what_is_written_reads_as_the_same_values(documents: list[dict[str, Any]]) -> None:
    text = write_documents(documents)
    assert [document.value for document in read_documents(text.encode())] == documents


@pytest.mark.parametrize("text", ["no", "off", "Yes", "2030-01-31", "12:30:00", "0x1F", "1_000"])
def test_what_older_yaml_took_for_something_else_is_a_text(text: str) -> None:
    assert only(f"a: {text}") == {"a": text}
    assert write_documents([{"a": text}]) == f"---\na: '{text}'\n"


def test_numbers_booleans_and_nothing_are_those_of_json() -> None:
    assert only("a: [1, -2, 0.5, 1e3, true, False, null, ~, ]") == {
        "a": [1, -2, 0.5, 1000.0, True, False, None, None]
    }


def test_a_number_with_more_digits_than_are_kept_is_refused() -> None:
    assert faults("a: 1\nb: 0.12345678901234567891") == [(2, "b")]
    assert faults("a: 99999999999999999999999") == [(1, "a")]
    assert faults("a: 1e999") == [(1, "a")]


def test_a_name_that_stands_twice_is_refused_with_its_line() -> None:
    assert faults("a: 1\nb: {c: 1, c: 2}\na: 3") == [(2, "b.c"), (3, "a")]


def test_each_field_has_its_line() -> None:
    (document,) = read_documents(b"# note\na:\n- b: 1\n- b:\n    c: 2\n")
    assert document.lines["a[1].b.c"] == 5
    assert document.lines["a[0].b"] == 3


def test_empty_documents_are_left_out() -> None:
    assert [d.value for d in read_documents(b"---\n---\na: 1\n---\n# nothing\n...\n")] == [{"a": 1}]


@pytest.mark.parametrize(
    "text",
    [
        "a: !!python/object/apply:os.system [id]",
        "a: !!binary aGVsbG8=",
        "a: !mine x",
        "? [1, 2]\n: 3",
        'a: "\\0"',
    ],
)
def test_tags_and_what_is_no_json_are_refused(text: str) -> None:
    assert len(faults(text)) == 1


@pytest.mark.parametrize("content", [b"a: [\n", b"\xff\xfe\x00", b'a: "\xc3\x28"', b"a: *nobody"])
def test_what_is_no_yaml_is_one_fault(content: bytes) -> None:
    assert len(faults(content)) == 1


@pytest.mark.parametrize("deep", [b"[" * 50_000, b"- " * 50_000 + b"x", b'{"a":' * 50_000])
def test_deep_nesting_is_refused_before_it_costs_the_stack(deep: bytes) -> None:
    assert faults(deep) == [(1, "")]
    assert faults(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH) == []


def test_aliases_are_followed_within_bounds() -> None:
    assert only("a: &x [1]\nb: *x") == {"a": [1], "b": [1]}
    bomb = "a0: &a0 [1, 1]\n" + "".join(
        f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 30)
    )
    assert MAX_NODES < 2**30
    assert len(faults(bomb)) == 1
    assert len(faults("&a [*a]")) == 1
