"""Ids are UUIDv7 in strictly increasing order; slugs are DNS labels."""

from __future__ import annotations

import time
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_gateway.ids import is_id, is_slug, new_id, slugify


def test_an_id_is_a_uuid_of_version_7_that_tells_its_time() -> None:
    before = time.time_ns() // 1_000_000
    parsed = UUID(new_id())
    after = time.time_ns() // 1_000_000
    assert (parsed.version, parsed.variant) == (7, "specified in RFC 4122")
    assert before - 1 <= parsed.int >> 80 <= after + 1


def test_f60_ids_increase_strictly_within_and_across_milliseconds() -> None:
    made = [new_id() for _ in range(20_000)]
    assert made == sorted(set(made))


def test_f60_ids_go_on_increasing_when_the_clock_steps_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = new_id()
    monkeypatch.setattr(time, "time_ns", lambda: 1_000_000_000)
    made = [first, *(new_id() for _ in range(10_000))]
    assert made == sorted(set(made))


@given(st.text())
def test_whatever_is_typed_a_slug_comes_out(text: str) -> None:
    assert is_slug(slugify(text))


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("My App", "my-app"),
        ("  Größe (2)  ", "groe-2"),
        ("gpt-4.1/mini", "gpt-4-1-mini"),
        ("日本", "entity"),
        ("x" * 80, "x" * 63),
        ("a" * 62 + " b", "a" * 62),
    ],
)
def test_a_slug_keeps_what_it_can(text: str, slug: str) -> None:
    assert slugify(text) == slug


@pytest.mark.parametrize("text", ["", "-a", "a-", "A", "a_b", "a.b", "a" * 64, "ä", "a\n"])
def test_what_is_no_dns_label_is_no_slug(text: str) -> None:
    assert not is_slug(text)


def test_ids_are_told_from_slugs_by_their_form() -> None:
    assert is_id(new_id())
    assert is_id("0197B3F0-0000-7000-8000-000000000000")
    assert not is_id("my-app")
    assert not is_id("g" * 36)
