"""Bodies changed at random: read, spliced and refused as the plain reference does."""

from __future__ import annotations

import pytest

from relay_gateway.testing.json_judge import judge_body
from relay_gateway.testing.json_reference import JsonMutator, decide, parse

BODIES = 100_000


def test_r22_changed_body_is_read_and_spliced_as_the_reference_does() -> None:
    mutator = JsonMutator(seed=22)
    accepted = sum(judge_body(mutator.body()) for _ in range(BODIES))
    assert BODIES / 10 < accepted < BODIES * 9 / 10


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"a","model":"a"}',
        b'{"Model":"a"}',
        b'{"model":NaN}',
        b'{"model":"\\ud800"}',
        b'["model"]',
        b'\xef\xbb\xbf{"model":"a"}',
    ],
)
def test_r22_the_reference_refuses_what_is_ambiguous_or_no_json(body: bytes) -> None:
    assert decide(body) is None


def test_r22_the_reference_keeps_every_pair() -> None:
    assert parse(b'{"a":1,"a":{"b":2}}') == [("a", 1), ("a", [("b", 2)])]
