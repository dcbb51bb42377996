"""Logs: one line per record whatever is in it, no secret, no waiting."""

from __future__ import annotations

import io
import json
import logging
import os
import threading
from collections.abc import Iterator
from typing import Any, TextIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_gateway.log import (
    BackgroundHandler,
    ConsoleFormatter,
    JsonFormatter,
    Redactor,
    configure_logging,
    escape,
    request_id,
)
from relay_gateway.secret import Secret

CANARY = "canary-7f3a9c51e2"


def record(message: str, *arguments: object, **fields: object) -> logging.LogRecord:
    made = logging.LogRecord("relay_gateway.x", logging.INFO, "f", 1, message, arguments, None)
    vars(made).update(fields)
    return made


def as_json(made: logging.LogRecord, *hide: str) -> dict[str, Any]:
    line = JsonFormatter(Redactor(tuple(map(Secret, hide)))).format(made)
    assert line.isascii()
    assert line.isprintable()
    decoded: dict[str, Any] = json.loads(line)
    return decoded


def on_console(made: logging.LogRecord) -> str:
    return ConsoleFormatter(Redactor(), colour=False).format(made)


@pytest.fixture
def restored_loggers() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("relay_gateway")
    before = (list(root.handlers), root.level, ours.level)
    yield
    for handler in [old for old in root.handlers if old not in before[0]]:
        root.removeHandler(handler)
        handler.close()
    root.setLevel(before[1])
    ours.setLevel(before[2])


@given(st.text())
def test_t52_a_json_record_is_one_ascii_line_that_gives_the_text_back(text: str) -> None:
    decoded = as_json(record("asked %s", text, model=text))
    assert decoded["model"] == Redactor()(text)


@given(st.text())
def test_t52_a_console_record_is_one_line_without_control_characters(text: str) -> None:
    line = on_console(record("asked %s", text, model=text))
    assert len(line.splitlines()) == 1
    assert "\x1b" not in line


def test_t52_terminal_and_direction_controls_are_shown_by_code() -> None:
    assert escape("a\x1b[2J\r\nb\u202ec\u2028") == "a\\x1b[2J\\x0d\\x0ab\\u202ec\\u2028"


def test_t52_a_field_cannot_take_the_place_of_the_records_own() -> None:
    decoded = as_json(record("m", level="forged", time="forged", logger="forged"))
    assert decoded["level"] == "info"
    assert decoded["logger"] == "relay_gateway.x"
    assert decoded["time"].endswith("Z")


def test_plain_fields_keep_their_type_and_others_become_text() -> None:
    decoded = as_json(record("m", status=200, took=0.5, ok=True, none=None, ids=["a"]))
    assert (decoded["status"], decoded["took"], decoded["ok"]) == (200, 0.5, True)
    assert (decoded["none"], decoded["ids"]) == (None, "['a']")


def test_records_carry_the_id_of_the_request_they_belong_to() -> None:
    token = request_id.set("0190-request")
    try:
        assert as_json(record("m"))["requestId"] == "0190-request"
        assert on_console(record("m")).endswith("requestId=0190-request")
    finally:
        request_id.reset(token)
    assert "requestId" not in as_json(record("m"))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"key {CANARY}!", "key <secret>!"),
        ("sk-relay-abcdefgHIJKLMNOP0123", "sk-relay-abcdefg<secret>"),
        ("Authorization: Bearer abc.def-1", "Authorization: Bearer <secret>"),
        ("at postgresql://relay:pw@db/x", "at postgresql://relay:<secret>@db/x"),
        ("at http://127.0.0.1:8080/v1", "at http://127.0.0.1:8080/v1"),
    ],
)
def test_t13_credentials_are_masked_wherever_they_turn_up(text: str, shown: str) -> None:
    decoded = as_json(record("%s", text, note=text), CANARY)
    assert (decoded["message"], decoded["note"]) == (shown, shown)


def test_t13_a_secret_object_never_prints() -> None:
    decoded = as_json(record("%s", Secret(CANARY), key=Secret(CANARY)))
    assert CANARY not in json.dumps(decoded)


def failure() -> logging.LogRecord:
    try:
        raise ValueError(f"first {CANARY}\n\x1b[31mforged line")
    except ValueError as error:
        made = record("broke")
        made.exc_info = (type(error), error, error.__traceback__)
        return made


def test_a_traceback_is_redacted_and_stays_inside_its_json_record() -> None:
    decoded = as_json(failure(), CANARY)
    assert "ValueError: first <secret>" in decoded["error"]


def test_a_traceback_on_a_console_is_indented_so_that_no_line_can_be_forged() -> None:
    first, *others = on_console(failure()).split("\n")
    assert first.endswith("x: broke")
    assert others
    assert all(line.startswith("    | ") for line in others)
    assert "\x1b" not in "".join(others)


class StuckStream(io.StringIO):
    """Takes nothing until it is released, as a pipe whose reader has stopped."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = threading.Event()
        self.released = threading.Event()

    def write(self, text: str) -> int:
        self.reached.set()
        assert self.released.wait(10)
        return super().write(text)


def test_f30_a_stuck_pipe_makes_nobody_wait_and_drops_are_counted_and_reported() -> None:
    stream = StuckStream()
    handler = BackgroundHandler(stream, length=3)
    handler.setFormatter(JsonFormatter(Redactor()))
    handler.emit(record("taken out"))
    assert stream.reached.wait(10)
    for number in range(10):
        handler.emit(record("number %d", number))
    assert handler.dropped == 7
    stream.released.set()
    handler.close()
    messages = [json.loads(line)["message"] for line in stream.getvalue().splitlines()]
    assert messages[:4] == ["taken out", "number 0", "number 1", "number 2"]
    assert messages[4].startswith("7 log records were dropped")


def broken_pipe() -> TextIO:
    reading, writing = os.pipe()
    os.close(reading)
    return os.fdopen(writing, "w", buffering=1, encoding="utf-8")


def test_f30_a_closed_pipe_is_ignored() -> None:
    stream = broken_pipe()
    handler = BackgroundHandler(stream)
    handler.setFormatter(JsonFormatter(Redactor()))
    for _ in range(3):
        handler.emit(record("into the void"))
    handler.close()
    assert handler.dropped == 0
    with pytest.raises(BrokenPipeError):
        stream.close()


def test_a_record_that_cannot_be_formatted_ends_nothing() -> None:
    handler = BackgroundHandler(io.StringIO())
    handler.setFormatter(JsonFormatter(Redactor()))
    handler.emit(record("%d", "no number"))
    handler.close()
    assert handler.dropped == 1


@pytest.mark.usefixtures("restored_loggers")
def test_t13_libraries_are_not_heard_below_warning_even_at_debug() -> None:
    stream = io.StringIO()
    handler = configure_logging("debug", stream=stream)
    logging.getLogger("relay_gateway.x").debug("ours")
    logging.getLogger("httpcore").debug("headers")
    logging.getLogger("httpcore").warning("theirs")
    handler.close()
    messages = [json.loads(line)["message"] for line in stream.getvalue().splitlines()]
    assert messages == ["ours", "theirs"]


@pytest.mark.usefixtures("restored_loggers")
def test_configuring_twice_logs_each_record_once() -> None:
    first, second = io.StringIO(), io.StringIO()
    configure_logging(stream=first)
    handler = configure_logging(style="console", stream=second)
    logging.getLogger("relay_gateway.x").info("once")
    handler.close()
    assert first.getvalue() == ""
    assert second.getvalue().count("once") == 1
