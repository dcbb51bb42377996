"""Redaction: what must go is gone, everything else is as it was, and JSON stays JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relay_gateway.catalog.payload_rules import compile_rules
from relay_gateway.http.sse import EventSplitter, parse_event
from relay_gateway.pipeline.capture_body import BodyCopy, Holding, Room
from relay_gateway.pipeline.payload_redaction import Hidden, RedactionError, redact, redact_text
from relay_gateway.secret import Secret
from relay_gateway.security.relay_keys import mint_relay_key

JSON = b"application/json"
EVENTS = b"text/event-stream"
CARD = r"\b\d{4}-\d{4}-\d{4}\b"
NUMBER = "1234-5678-9012"
SECRET = "sk-upstream-Zx9Yw8Vu7Ts6Rq5Po4"


def redacted(
    content_type: bytes, body: bytes, *rules: str, keep: int = 1 << 20, secret: str = SECRET
) -> tuple[bytes, bool]:
    """What is left of ``body``, and whether it is said to be cut."""
    copy = BodyCopy(content_type, None, keep, Holding(Room(1 << 30)))
    copy.feed(body)
    taken = copy.finish(complete=True)
    found = redact(taken, keep, Hidden(compile_rules(rules), [Secret(secret)]))
    return found.content, taken.truncated or found.cut


def left(body: str, *rules: str) -> str:
    """What is left of JSON."""
    return redacted(JSON, body.encode(), *rules)[0].decode()


@pytest.mark.parametrize(
    ("rules", "body", "expected"),
    [
        (["/a"], '{ "a" : [1, {"b":2}],\n"c":3 }', '{ "a" : "[redacted]",\n"c":3 }'),
        (["/a/b"], '{"a":{"b":null,"c":{"b":1}}}', '{"a":{"b":"[redacted]","c":{"b":1}}}'),
        (["/a/1"], '{"a":[1,2,3]}', '{"a":[1,"[redacted]",3]}'),
        (["/a/*/t"], '{"a":[{"t":1},{"t":"x"}]}', '{"a":[{"t":"[redacted]"},{"t":"[redacted]"}]}'),
        (["/a/-"], '{"a":{"-":1,"b":2}}', '{"a":{"-":"[redacted]","b":2}}'),
        (["/*/t"], '{"a":{"t":1},"b":{"t":2}}', '{"a":{"t":"[redacted]"},"b":{"t":"[redacted]"}}'),
        (["/a~1b"], '{"a/b":1,"a":{"b":2}}', '{"a/b":"[redacted]","a":{"b":2}}'),
        (["/a"], '{"\\u0061":1}', '{"\\u0061":"[redacted]"}'),
        (["/a"], '{"a":1,"a":2}', '{"a":"[redacted]","a":"[redacted]"}'),
        (["/a"], '[{"a":1},{"a":2}]', '[{"a":"[redacted]"},{"a":"[redacted]"}]'),
        (["/a"], '{"a":1}\n{"a":2}\n', '{"a":"[redacted]"}\n{"a":"[redacted]"}\n'),
        (["/a/b"], '{"a":"text"}', '{"a":"text"}'),
        ([CARD], f'{{"a":"my {NUMBER}!","b":"\\u00e4"}}', '{"a":"my [redacted]!","b":"\\u00e4"}'),
        ([CARD], '{"a":"\\n1234\\u002d5678-9012\\n"}', '{"a":"\\n[redacted]\\n"}'),
        ([CARD], f'{{"{NUMBER}":[1]}}', '{"[redacted]":[1]}'),
        ([r"4711"], '{"a":4711,"b":true}', '{"a":"[redacted]","b":true}'),
        ([r"\d+", r"a.c"], '{"x":"ab1c22"}', '{"x":"ab[redacted]c[redacted]"}'),
        (["b+", "abb"], '{"x":"abbbc"}', '{"x":"[redacted]c"}'),
        ([r"^secret$"], '{"x":"secret","y":"no secret"}', '{"x":"[redacted]","y":"no secret"}'),
        (["\U0001f600+"], '{"x":"\\ud83d\\ude00\\ud83d\\ude00 y"}', '{"x":"[redacted] y"}'),
        (["/a"], '"a"', '"a"'),
        (["/a"], "", ""),
    ],
)
def test_json_loses_what_rules_name_and_nothing_else(
    rules: list[str], body: str, expected: str
) -> None:
    assert left(body, *rules) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('{"a":"se', '{"a":"[redacted]"'),
        ('{"a":{"x":[1,', '{"a":"[redacted]"'),
        ('{"b":1,"a', '{"b":1,"a'),
        ('{"a":', '{"a":'),
        ('{"b":tru', '{"b":tru'),
        ('{"b":"\\u00', '{"b":"\\u00'),
    ],
)
def test_t65_pointers_hold_for_json_that_is_cut_off(body: str, expected: str) -> None:
    assert left(body, "/a") == expected


@pytest.mark.parametrize("broken", ['{"b":1,}"a":"x"', '{"b":1]"a":"x"}', "{\"b\":1 'a':'x'}"])
def test_t65_of_json_that_breaks_off_nothing_is_kept_that_a_pointer_might_mean(
    broken: str,
) -> None:
    content, cut = redacted(JSON, broken.encode(), "/a")
    assert (b"x" in content, cut) == (False, True)
    assert content.startswith(b'{"b":1')


def test_what_is_no_json_is_looked_at_as_text() -> None:
    assert left(f"not json {NUMBER}", CARD, "/a") == "not json [redacted]"
    assert left(f'{{"a":1,}} {NUMBER}', CARD) == '{"a":1,} [redacted]'
    text = redacted(b"text/plain; charset=utf-8", f"a {NUMBER} b".encode(), CARD, "/a")[0]
    assert text == b"a [redacted] b"


def test_text_that_is_not_utf_8_keeps_its_bytes() -> None:
    assert redacted(b"text/plain", b"\xff\xfe 4711 \x80", "4711")[0] == b"\xff\xfe [redacted] \x80"


@pytest.mark.parametrize("keep", range(20, 60))
def test_t65_a_secret_on_the_edge_is_not_kept_in_part(keep: int) -> None:
    body = f'{{"a":"{"x" * 20}{NUMBER}{"y" * 40}"}}'.encode()
    content, cut = redacted(JSON, body, CARD.replace(r"\b", ""), keep=keep)
    assert cut
    assert b"1234" not in content
    assert content == body[:keep].partition(b"1")[0] + (
        b"" if keep <= 26 else b"[redacted]" + b"y" * max(0, keep - 40)
    )


def test_credentials_are_found_in_json_and_out_of_it() -> None:
    key = mint_relay_key().plaintext.reveal()
    for body in (
        f'{{"a":"{SECRET} and {key}"}}',
        f'{{"a":"{SECRET.replace("s", chr(92) + "u0073")} and {key}"}}',
    ):
        assert left(body) == '{"a":"[redacted] and [redacted]"}'
    assert left(f'{{"a":"{SECRET[:16]}...{SECRET[-4:]}"}}') == '{"a":"[redacted]"}'
    assert redacted(b"text/plain", f"{SECRET} {key}".encode())[0] == b"[redacted] [redacted]"


def test_an_event_stream_keeps_its_form() -> None:
    body = (
        '\ufeff: 4711 comment\r\nevent: delta\r\nid: 4711\r\ndata: {"a": 1}\r\n\r\n'
        'data:{"b":\ndata: "4711",\ndata:"a":{"c":\ndata: 1}}\n\n'
        'data: [DONE]\n\ndata: plain 4711\n\ndata: {"a":[1,'
    )
    content, _ = redacted(EVENTS, body.encode(), "/a", "4711")
    assert content.decode() == (
        "\ufeff: [redacted] comment\r\nevent: delta\r\nid: [redacted]\r\n"
        'data: {"a": "[redacted]"}\r\n\r\n'
        'data:{"b":\ndata: "[redacted]",\ndata:"a":"[redacted]"}\n\n'
        'data: [DONE]\n\ndata: plain [redacted]\n\ndata: {"a":"[redacted]"'
    )


def test_texts_of_several_answers_in_one_stream_are_told_apart() -> None:
    pieces = [(0, "1234-"), (1, "nothing"), (0, "5678-"), (1, " here"), (0, "9012 end")]
    body = "".join(_event({"choices": [{"index": n, "delta": {"t": t}}]}) for n, t in pieces)
    content, _ = redacted(EVENTS, body.encode(), CARD)
    assert [(n, t) for n, t in _texts(content) if n == 0] == [
        (0, "[redacted]"),
        (0, ""),
        (0, " end"),
    ]
    assert [t for n, t in _texts(content) if n == 1] == ["nothing", " here"]


def test_t65_redaction_that_takes_too_long_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relay_gateway.pipeline.payload_redaction.SECONDS", 0.05)
    with pytest.raises(RedactionError, match="took longer"):
        redacted(b"text/plain", b"a" * 1_000_000, "a(.*b)?")


def test_deep_json_counts_as_broken_where_it_becomes_too_deep() -> None:
    content, cut = redacted(JSON, b'{"b":1,"a":' + b"[" * 5000, "/x")
    assert (cut, len(content)) == (True, 11 + 511)


SECRETS = st.sampled_from([SECRET, NUMBER, mint_relay_key().plaintext.reveal()])
JUNK = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | JUNK | SECRETS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(JUNK | SECRETS, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(VALUES, st.booleans(), st.sampled_from([None, 2]))
def test_t65_whatever_the_json_it_still_parses_and_no_secret_is_left(
    value: Any,
    ascii_only: bool,
    indent: int | None,
) -> None:
    body = json.dumps({"v": value, "hide": value}, ensure_ascii=ascii_only, indent=indent)
    content, cut = redacted(JSON, body.encode(), CARD.replace(r"\b", ""), "/hide")
    parsed = json.loads(content)
    assert (parsed["hide"], cut) == ("[redacted]", False)
    shown = json.dumps(parsed, ensure_ascii=False)
    assert SECRET not in shown
    assert NUMBER not in shown
    assert "sk-relay-" not in shown


@settings(max_examples=150, deadline=None)
@given(st.text('ab \n"\\ä', max_size=30), SECRETS, JUNK, st.data())
def test_t65_however_a_stream_cuts_a_secret_it_is_gone_and_every_event_still_parses(
    before: str, secret: str, after: str, data: st.DataObject
) -> None:
    text = f"{before}{secret} {after}"
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=30)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    body = "".join(_event({"choices": [{"index": 0, "delta": {"t": one}}]}) for one in pieces)
    content, cut = redacted(EVENTS, body.encode(), CARD.replace(r"\b", ""))
    told = "".join(piece for _, piece in _texts(content))
    assert secret not in told
    assert (len(_texts(content)), cut) == (len(pieces), False)
    assert told.startswith(before)
    assert redact_text(text, Hidden(compile_rules((CARD,)))).endswith(f" {after}")


@settings(max_examples=100, deadline=None)
@given(VALUES, st.integers(0, 400))
def test_t65_wherever_a_body_is_cut_what_a_pointer_leads_to_is_gone(value: Any, keep: int) -> None:
    hidden = ["hush-hush", {"deep": value, "also": "hush-hush"}]
    body = json.dumps({"v": value, "hide": hidden, "w": 1}).encode()
    content, cut = redacted(JSON, body, "/hide", keep=keep)
    assert b"hush" not in content
    assert cut is (len(body) > keep)
    assert body.startswith(content.partition(b'"[redacted]"')[0]) or b"[redacted]" in content


def _event(value: object) -> str:
    return f"data: {json.dumps(value)}\n\n"


def _texts(content: bytes) -> list[tuple[int, str]]:
    found = []
    for event in EventSplitter().feed(content):
        choice = json.loads(parse_event(event)[1])["choices"][0]
        found.append((choice["index"], choice["delta"]["t"]))
    return found
