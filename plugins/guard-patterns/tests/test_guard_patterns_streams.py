"""Rules on a stream: cut anywhere, it says what the whole would have said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relay_gateway.plugin import Refuse, Requester, StreamGuard
from relay_gateway.plugin.canonical import (
    ArgumentsDelta,
    Finished,
    PartStarted,
    PartStopped,
    Ping,
    Reasoning,
    ReasoningDelta,
    RefusalDelta,
    Signed,
    Started,
    Stop,
    StopKind,
    StreamEvent,
    TextDelta,
    TokenLogprob,
    ToolCall,
)
from relay_gateway.plugin.canonical.blobs import Blob
from relay_gateway.testing.context import plugin_context
from relay_gateway_guard_patterns import PatternGuard, PatternsConfig, Rule
from relay_gateway_guard_patterns.screen import Screen
from relay_gateway_guard_patterns.stream import MAX_ARGUMENTS, WINDOWS, TextScreen

WHO = Requester("r-1", "chat.completions", "acme.chat")
RULES = (
    Rule(name="n", pattern=r"\b\d{4}\b", action="mask"),
    Rule(name="w", pattern=r"ab{1,3}c?", action="mask", replacement=""),
    Rule(name="l", pattern=r"(?m)^#", action="mask"),
)
WINDOW = 6


def stream(directory: Path, *rules: Rule, window: int = WINDOW) -> StreamGuard:
    config = PatternsConfig(rules=rules or RULES, window=window)
    return PatternGuard(config, plugin_context(directory)).inspect_stream(WHO)


def through(made: StreamGuard, *events: StreamEvent) -> list[StreamEvent]:
    passed: list[StreamEvent] = []
    for event in events:
        judged = made.event(event)
        assert not isinstance(judged, Refuse), judged
        passed += judged
    return passed


@given(
    text=st.text(alphabet="ab1c #\n2é", max_size=60),
    cuts=st.lists(st.integers(1, 9), min_size=1, max_size=60),
)
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_however_a_text_is_cut_it_becomes_what_the_whole_becomes(
    text: str, cuts: list[int]
) -> None:
    screen = Screen(RULES)
    made, told, place = TextScreen(screen, WINDOW), "", 0
    for size in cuts:
        told += made.feed(text[place : place + size])
        place += size
    told += made.feed(text[place:]) + made.end()
    assert told == screen.applied(text)


def test_no_more_than_the_window_is_held_back() -> None:
    made, told = TextScreen(Screen(RULES), WINDOW), 0
    for given_so_far in range(1, 500):
        told += len(made.feed("x"))
        assert given_so_far - told <= WINDOW + 1


def test_a_match_that_grows_for_ever_is_masked_in_pieces() -> None:
    made = TextScreen(Screen((Rule(name="d", pattern=r"\d+", action="mask"),)), WINDOW)
    told, held = "", 0
    for number in range(1000):
        told += made.feed(str(number % 10))
        held = max(held, len(made._text))
    told += made.end()
    assert held <= WINDOWS * WINDOW + 1
    assert not any(one.isdigit() for one in told)


def test_each_section_of_a_thought_is_a_text_of_its_own(tmp_path: Path) -> None:
    passed = through(
        stream(tmp_path),
        PartStarted(0, Reasoning()),
        ReasoningDelta(0, "12", section=0),
        ReasoningDelta(0, "34", section=1),
        Ping(),
        PartStopped(0),
    )
    assert passed[1:] == [
        ReasoningDelta(0, "12", section=0),
        Ping(),
        ReasoningDelta(0, "34", section=1),
        PartStopped(0),
    ]


def test_a_thought_that_was_masked_goes_on_without_its_signature(tmp_path: Path) -> None:
    signed = Signed(0, Blob("acme.chat", "signed"))
    for text, wanted in (
        ("1234", [ReasoningDelta(0, "[n]")]),
        ("x", [ReasoningDelta(0, "x"), signed]),
    ):
        made = stream(tmp_path)
        assert through(made, ReasoningDelta(0, text), signed) == wanted


def test_refusals_of_a_model_are_masked_and_its_probabilities_go(tmp_path: Path) -> None:
    told = TextDelta(0, "1234", (TokenLogprob("1234", -0.1),))
    passed = through(stream(tmp_path), told, PartStopped(0), RefusalDelta(1, "abc"), PartStopped(1))
    assert passed == [TextDelta(0, "[n]"), PartStopped(0), PartStopped(1)]


def test_arguments_of_tool_calls_side_by_side_are_judged_when_they_are_complete(
    tmp_path: Path,
) -> None:
    first, second = json.dumps({"pin": "1234", "keep": "12345"}), json.dumps(["\u0061bc"])
    passed = through(
        stream(tmp_path),
        Started("a", "m"),
        PartStarted(0, ToolCall("1", "f", "")),
        ArgumentsDelta(0, first[:9]),
        PartStarted(1, ToolCall("2", "g", "")),
        ArgumentsDelta(1, second),
        ArgumentsDelta(0, first[9:]),
        PartStopped(1),
        PartStopped(0),
        Finished(Stop(StopKind.TOOL_CALLS)),
    )
    told = {one.index: json.loads(one.text) for one in passed if isinstance(one, ArgumentsDelta)}
    assert told == {0: {"pin": "[n]", "keep": "12345"}, 1: [""]}


def test_arguments_without_end_are_refused(tmp_path: Path) -> None:
    made = stream(tmp_path)
    piece = ArgumentsDelta(0, "x" * (MAX_ARGUMENTS // 4))
    judged: list[Any] = [made.event(piece) for _ in range(5)]
    assert [isinstance(one, Refuse) for one in judged] == [False] * 4 + [True]


def test_a_denied_stream_ends_before_any_of_the_match_has_gone_out(tmp_path: Path) -> None:
    made = stream(tmp_path, Rule(name="card", pattern=r"\d{4}-\d{4}"), window=9)
    told = ""
    for character in "pay with 1234-5678 now, please":
        judged = made.event(TextDelta(0, character))
        if isinstance(judged, Refuse):
            assert judged.reason == "it matches 'card'"
            break
        told += "".join(one.text for one in judged if isinstance(one, TextDelta))
    else:
        raise AssertionError("the stream was not refused")
    assert "pay with ".startswith(told)
