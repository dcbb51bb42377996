"""Rules for patterns: where they look, what they put in place, what they refuse."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pydantic import ValidationError

from relay_gateway.plugin import Allow, Refuse, Replace, Requester
from relay_gateway.plugin.canonical import (
    CanonicalRequest,
    CanonicalResponse,
    Document,
    Image,
    Message,
    NativePart,
    PlainText,
    Reasoning,
    Stop,
    StopKind,
    Text,
    TokenLogprob,
    Tool,
    ToolCall,
    ToolResult,
    Url,
)
from relay_gateway.plugin.canonical.blobs import Blob
from relay_gateway.testing.context import plugin_context
from relay_gateway_guard_patterns import PatternGuard, PatternsConfig

WHO = Requester("r-1", "chat.completions", "acme.chat")
SECRET = "s3cret-77"


def guard(directory: Path, *rules: dict[str, Any], **section: Any) -> PatternGuard:
    given = [{"name": "secret", "pattern": r"s3cret-\d+", "action": "mask", **one} for one in rules]
    config = PatternsConfig.model_validate({"rules": given, **section})
    return PatternGuard(config, plugin_context(directory))


def asked(*messages: Message) -> CanonicalRequest:
    return CanonicalRequest(model="m", messages=messages)


def user(*parts: Any) -> CanonicalRequest:
    return asked(Message("user", parts))


def masked(made: PatternGuard, request: CanonicalRequest) -> CanonicalRequest:
    judgement = made.inspect_request(request, WHO)
    assert isinstance(judgement, Replace), judgement
    return judgement.content


def test_every_text_of_a_request_is_masked_and_nothing_else_is_touched(tmp_path: Path) -> None:
    request = asked(
        Message("system", (Text(f"a {SECRET} b"),)),
        Message("user", (Document(PlainText(SECRET), SECRET, SECRET), Image(Url("http://a/b")))),
        Message("user", (NativePart({"type": "odd", "deep": [{"x": f"<{SECRET}>"}]}),)),
        Message("assistant", (Reasoning((SECRET,), blob=Blob("acme.chat", "signed")),)),
        Message("assistant", (ToolCall("1", "f", json.dumps({"k": [SECRET, 1], SECRET: None})),)),
        Message("tool", (ToolResult("1", (Text(SECRET),), extra={"note": SECRET}),)),
    )
    changed = masked(guard(tmp_path, {}), request)
    told = msgspec.json.encode(changed).decode()
    assert SECRET not in told
    assert told.count("[secret]") == 10
    document, picture = changed.messages[1].parts
    assert isinstance(document, Document)
    assert picture is request.messages[1].parts[1]
    thought = changed.messages[3].parts[0]
    assert isinstance(thought, Reasoning)
    assert thought.blob is None, "what its maker signed is no longer there"
    call = changed.messages[4].parts[0]
    assert isinstance(call, ToolCall)
    assert json.loads(call.arguments) == {"k": ["[secret]", 1], "[secret]": None}


@pytest.mark.parametrize(
    ("place", "request_with"),
    [
        ("system", asked(Message("developer", (Text(SECRET),)))),
        ("messages", user(Text(SECRET))),
        ("tool_arguments", user(ToolCall("1", "f", f'{{"a":"{SECRET}"}}'))),
        ("tool_results", user(ToolResult("1", (Text(SECRET),)))),
    ],
)
def test_a_rule_looks_only_where_it_is_told_to(
    tmp_path: Path, place: str, request_with: CanonicalRequest
) -> None:
    others = {"system", "messages", "tool_arguments", "tool_results"} - {place}
    there = guard(tmp_path, {"places": [place], "action": "deny"})
    elsewhere = guard(tmp_path, {"places": sorted(others), "action": "deny"})
    assert isinstance(there.inspect_request(request_with, WHO), Refuse)
    assert isinstance(elsewhere.inspect_request(request_with, WHO), Allow)


def test_a_refusal_names_the_rule_and_never_the_text(tmp_path: Path) -> None:
    judgement = guard(tmp_path, {"action": "deny"}).inspect_request(user(Text(SECRET)), WHO)
    assert judgement == Refuse("it matches 'secret'")


def test_a_rule_that_denies_wins_over_one_that_masks_the_same(tmp_path: Path) -> None:
    made = guard(tmp_path, {"name": "all", "pattern": ".+"}, {"action": "deny"})
    assert isinstance(made.inspect_request(user(Text(f"x {SECRET}")), WHO), Refuse)


def test_masks_that_overlap_become_one(tmp_path: Path) -> None:
    made = guard(tmp_path, {"name": "long", "pattern": r"s3\w+-77 tail"}, {})
    part = masked(made, user(Text(f"x {SECRET} tail {SECRET}"))).messages[0].parts[0]
    assert part == Text("x [long] [secret]")


def test_a_replacement_stands_as_it_is_written(tmp_path: Path) -> None:
    made = guard(tmp_path, {"replacement": r"\1 $0 \\"})
    assert masked(made, user(Text(SECRET))).messages[0].parts[0] == Text(r"\1 $0 \\")


def test_a_direction_decides_what_is_read_at_all(tmp_path: Path) -> None:
    made = guard(tmp_path, {"direction": "request"})
    assert (made.reads_requests, made.reads_responses, made.reads_streams) == (True, False, False)
    made = guard(tmp_path, {"direction": "response"})
    assert (made.reads_requests, made.reads_responses, made.reads_streams) == (False, True, True)


def test_a_masked_answer_does_not_spell_its_tokens_out(tmp_path: Path) -> None:
    response = CanonicalResponse(
        id="a",
        model="m",
        parts=(Text(SECRET),),
        stop=Stop(StopKind.END),
        logprobs=(TokenLogprob(SECRET, -0.1),),
    )
    judgement = guard(tmp_path, {}).inspect_response(response, WHO)
    assert isinstance(judgement, Replace)
    assert judgement.content.logprobs is None
    assert judgement.content.parts == (Text("[secret]"),)


def test_tools_that_are_offered_are_not_looked_at(tmp_path: Path) -> None:
    request = msgspec.structs.replace(user(Text("Hello")), tools=(Tool("f", SECRET),))
    made = guard(tmp_path, {"action": "deny"})
    assert isinstance(made.inspect_request(request, WHO), Allow)


def test_halves_of_surrogate_pairs_do_not_hide_a_match(tmp_path: Path) -> None:
    part = masked(guard(tmp_path, {}), user(Text(f"\ud800{SECRET}\udfff"))).messages[0].parts[0]
    assert part == Text("\ud800[secret]\udfff")


@pytest.mark.parametrize("pattern", ["(", "a*", r"(?=x)", r"(a)\1", "\ud800", "x{2000}{2000}"])
def test_a_pattern_that_is_none_is_refused(tmp_path: Path, pattern: str) -> None:
    with pytest.raises(ValidationError, match="rules"):
        guard(tmp_path, {"pattern": pattern})


def test_two_rules_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="same name"):
        guard(tmp_path, {}, {})


@pytest.mark.parametrize("pattern", [r"(a+)+$", r"(.*)(.*)(.*)x\d", r"([a-z]+)*1"])
def test_hostile_patterns_and_texts_take_time_in_proportion(tmp_path: Path, pattern: str) -> None:
    made = guard(tmp_path, {"pattern": pattern, "action": "deny"})

    def seconds(length: int) -> float:
        request, best = user(Text("a" * length + "!")), 60.0
        for _ in range(3):
            began = time.perf_counter()
            made.inspect_request(request, WHO)
            best = min(best, time.perf_counter() - began)
        return best

    # Sixteen times as much: a backtracking search would not come back at all.
    assert seconds(160_000) < 160 * max(seconds(10_000), 0.0005)
