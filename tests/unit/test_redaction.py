"""Credentials are found by value: whole, in part, however written, for as long as they live."""

from __future__ import annotations

import gc
import html
import io
import json
import logging
import secrets
import string
import threading
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relay_gateway.log import JsonFormatter, Redactor
from relay_gateway.redaction import FRAGMENT, LIVE, LiveValues, scrub_value
from relay_gateway.secret import Secret

VALUE = "sk-proj-Ab3dEfGhIjKlMnOpQrStUvWxYz0123456789"
HEAD, TAIL = "Ab3dEfGh", "23456789"
ODD = 'p"w&<>%+/=\\0123456789abcdef'


def is_silent(text: str, value: str = VALUE) -> bool:
    """Whether no eight characters of the value in a row are in ``text``, but for its prefix."""
    secret_part = value.removeprefix("sk-proj-")
    windows = range(len(secret_part) - FRAGMENT + 1)
    return not any(secret_part[at : at + FRAGMENT] in text for at in windows)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"you sent {VALUE}!", "you sent ***!"),
        (f"{VALUE}{VALUE}", "***"),
        (f"{VALUE}, {VALUE}", "***, ***"),
        (f"begins with {HEAD}", "begins with ***"),
        (f"ends with {TAIL}.", "ends with ***."),
        (VALUE[:20], "***"),
        (VALUE[10:], "***"),
        (f"cut off: {VALUE[:-1]}", "cut off: ***"),
        ("sk-proj-Ab3d****6789", "***"),
        ("sk-proj-Ab3d...6789", "***"),
        ("sk-proj-Ab3d…6789", "***"),
        ('{"key": "sk-proj-Ab3d\\u20266789"}', '{"key": "***"}'),
        ("ends in ****6789", "ends in ***"),
        ("sk-proj-Ab3dxxxxxxxx6789", "***"),
        ("nothing of it ... here", "nothing of it ... here"),
        ("sk-proj-another-one", "sk-proj-another-one"),
        ("", ""),
    ],
)
def test_t09_a_value_is_found_whole_in_part_and_around_a_mask(text: str, left: str) -> None:
    assert scrub_value(text, VALUE, "***") == left


@pytest.mark.parametrize(
    "written", [ODD, json.dumps(ODD)[1:-1], quote(ODD, safe=""), html.escape(ODD)]
)
def test_t09_a_value_is_found_as_json_urls_and_html_write_it(written: str) -> None:
    assert scrub_value(f"<{written}>", ODD, "***") == "<***>"


@pytest.mark.parametrize("value", ["k", "sk-one", "sk-words"])
def test_a_short_value_is_found_whole_only(value: str) -> None:
    assert scrub_value(f"it is {value}", value, "***") == "it is ***"
    assert scrub_value("sk", "sk-one", "***") == "sk"


def test_an_empty_value_is_nowhere() -> None:
    assert scrub_value("text", "", "***") == "text"


ALPHABET = string.ascii_letters + string.digits


# No character twice: of a value like "000…" every part is its beginning and its end. And none that
# could end a public prefix, which leaves too little to tell a part by.
VALUES = st.tuples(st.permutations(ALPHABET), st.integers(24, 60)).map(
    lambda drawn: "".join(drawn[0][: drawn[1]])
)


@settings(deadline=None)
@given(VALUES, st.text(), st.text(), st.integers(0, 40))
def test_t09_no_eight_characters_from_either_end_are_left(
    value: str, before: str, after: str, cut: int
) -> None:
    shown = scrub_value(before + value[: len(value) - cut] + after, value, "")
    shorter = scrub_value(before + value[cut:] + after, value, "")
    for text in (shown, shorter):
        left = text.replace(before, "").replace(after, "")
        assert value not in text or value in before + after
        assert value[-FRAGMENT:] not in left or value[-FRAGMENT:] in before + after


@pytest.fixture
def live() -> LiveValues:
    return LiveValues()


def made() -> Secret:
    return Secret("sk-" + "".join(secrets.choice(string.ascii_letters) for _ in range(40)))


@pytest.mark.parametrize("count", [1, 5, 2000])
def test_t11_every_value_that_is_alive_is_found(live: LiveValues, count: int) -> None:
    held = [made() for _ in range(count)]
    for secret in held:
        live.add(secret)
    assert len(live) == count
    for secret in held[:: max(1, count // 20)]:
        value = secret.reveal()
        assert live.scrub(f"a {value} b {value[3:11]} c", "*") == "a * b * c"
    assert live.scrub("an ordinary line of text", "*") == "an ordinary line of text"


def test_a_value_that_nobody_holds_any_more_is_forgotten(live: LiveValues) -> None:
    kept, dropped = made(), made()
    text = dropped.reveal()
    live.add(kept)
    live.add(dropped)
    live.add(dropped)
    assert len(live) == 2
    del dropped
    gc.collect()
    assert len(live) == 1
    assert live.scrub(text, "*") == text
    assert live.scrub(kept.reveal(), "*") == "*"


def test_the_same_value_held_twice_is_hidden_until_both_are_gone(live: LiveValues) -> None:
    first, second = Secret(VALUE), Secret(VALUE)
    live.add(first)
    live.add(second)
    del first
    gc.collect()
    assert live.scrub(VALUE, "*") == "*"
    del second
    gc.collect()
    assert len(live) == 0
    assert live.scrub(VALUE, "*") == VALUE


def test_a_short_value_is_not_looked_for_in_every_text(live: LiveValues) -> None:
    word = Secret("secret")
    live.add(word)
    assert live.scrub("a secret backend", "*") == "a secret backend"


def test_a_word_hides_no_other_word_that_begins_like_it(live: LiveValues) -> None:
    word = Secret("relay-gateway")
    live.add(word)
    text = "relay-gate and relay-gateway"
    assert live.scrub(text, "*") == "relay-gate and *"


def test_threads_may_add_drop_and_look_at_the_same_time(live: LiveValues) -> None:
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(200):
                secret = made()
                live.add(secret)
                assert live.scrub(secret.reveal(), "*") == "*"
        except BaseException as error:  # noqa: BLE001 - told by the test
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    assert (failures, len(live)) == ([], 0)


@pytest.fixture
def logged() -> Iterator[tuple[logging.Logger, io.StringIO]]:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter(Redactor()))
    logger = logging.getLogger("another.package")
    logger.addHandler(handler)
    logger.setLevel("DEBUG")
    logger.propagate = False
    yield logger, stream
    logger.removeHandler(handler)
    logger.propagate = True


@pytest.mark.parametrize("level", ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"])
def test_t13_a_live_credential_is_in_no_record_at_any_level(
    logged: tuple[logging.Logger, io.StringIO], level: str
) -> None:
    logger, stream = logged
    secret = Secret(VALUE)
    LIVE.add(secret)
    number = logging.getLevelNamesMapping()[level]
    logger.log(number, "sent %s", VALUE, extra={"header": f"Bearer {VALUE}", "list": [VALUE]})
    logger.log(number, "proxy login %s", "Basic dXNlcjpwYXNzd29yZC1vZi1zb21lLWxlbmd0aA==")
    try:
        raise ValueError(f"bad key {VALUE[:16]}")
    except ValueError:
        logger.log(number, "failed", exc_info=True)
    assert is_silent(stream.getvalue())
    assert "dXNlcjpw" not in stream.getvalue()
    assert stream.getvalue().count("<secret>") >= 4
