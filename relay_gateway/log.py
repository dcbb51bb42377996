"""Structured logs: one line per record, escaped, without secrets, never in the way of a request."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import queue
import re
import sys
import threading
import weakref
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

from relay_gateway.redaction import LIVE
from relay_gateway.secret import MASK, Secret

ROOT = "relay_gateway"
"""Name of the logger above all others of the gateway and its plugins."""

request_id: ContextVar[str] = ContextVar("relay_request_id", default="")
"""Id of the inference request on whose behalf this task runs; every record carries it."""

_QUEUE_LENGTH = 10_000
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_CREDENTIALS = (
    (re.compile(r"(sk-relay-[0-9A-Za-z]{7})[0-9A-Za-z]+"), rf"\1{MASK}"),
    (re.compile(r"(?i)(bearer )[^\s\"',]+"), rf"\1{MASK}"),
    (re.compile(r"(\bBasic )[A-Za-z0-9+/]{16,}=*"), rf"\1{MASK}"),
    (re.compile(r"(://[^/?#@:\s]{0,256}):[^/?#@\s]{1,512}@"), rf"\1:{MASK}@"),
)
_COLOURS = {"WARNING": "\x1b[33m", "ERROR": "\x1b[31m", "CRITICAL": "\x1b[1;31m"}


def escape(text: str) -> str:
    """``text`` with control, line-separating and direction-changing characters shown by their
    codes, so that one record stays one line and a terminal obeys none of it."""
    return _UNSAFE.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


class Redactor:
    """Replaces credentials in text: those it was told, those that are alive in this process, and
    those that can be told by their form."""

    def __init__(self, secrets: tuple[Secret, ...] = ()) -> None:
        self._values = tuple(value for secret in secrets if len(value := secret.reveal()) >= 8)

    def __call__(self, text: str) -> str:
        for value in self._values:
            text = text.replace(value, MASK)
        text = LIVE.scrub(text, MASK)
        for pattern, replacement in _CREDENTIALS:
            text = pattern.sub(replacement, text)
        return text


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    """What the caller passed as ``extra``, and the request id."""
    fields = {name: value for name, value in vars(record).items() if name not in _STANDARD}
    if current := request_id.get():
        fields.setdefault("requestId", current)
    return fields


class JsonFormatter(logging.Formatter):
    """One JSON object per line: ``time``, ``level``, ``logger``, ``message``, fields, ``error``."""

    def __init__(self, redact: Redactor) -> None:
        super().__init__()
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line of ASCII."""
        time = datetime.fromtimestamp(record.created, UTC)
        line = {
            "time": time.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._redact(record.getMessage()),
        }
        for name, value in _fields(record).items():
            line.setdefault(name, value if _is_plain(value) else self._redact(str(value)))
        if record.exc_info:
            line["error"] = self._redact(self.formatException(record.exc_info))
        return json.dumps(line)


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, bool | int | float)


class ConsoleFormatter(logging.Formatter):
    """A line for people: time, level where it matters, message, ``name=value`` fields."""

    def __init__(self, redact: Redactor, *, colour: bool) -> None:
        super().__init__()
        self._redact = redact
        self._colour = colour

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line; a traceback follows on indented lines."""
        time = datetime.fromtimestamp(record.created).astimezone()
        name = record.name.removeprefix(f"{ROOT}.")
        fields = "".join(f"  {key}={value}" for key, value in _fields(record).items())
        text = escape(self._redact(f"{name}: {record.getMessage()}{fields}"))
        line = f"{time:%H:%M:%S} {self._level(record.levelname)} {text}"
        if not record.exc_info:
            return line
        trace = self._redact(self.formatException(record.exc_info))
        return "\n    | ".join([line, *(escape(part) for part in trace.splitlines())])

    def _level(self, name: str) -> str:
        colour = _COLOURS.get(name) if self._colour else None
        return f"{colour}{name:<7}\x1b[0m" if colour else f"{name:<7}"


class BackgroundHandler(logging.Handler):
    """Writes lines in a thread, so that a blocked pipe never blocks the event loop (F30).

    The waiting line is bounded; ``dropped`` counts what did not fit. A closed stream is ignored.
    Around a fork the thread is ended and begun anew, in both processes: it would not exist in the
    child, and forking with threads is not safe.
    """

    def __init__(self, stream: TextIO, length: int = _QUEUE_LENGTH) -> None:
        super().__init__()
        self.dropped = 0
        self._stream = stream
        self._length = length
        self._begin()
        _open_handlers.add(self)

    def _begin(self) -> None:
        self._lines: queue.Queue[str | None] = queue.Queue(self._length)
        self._thread = threading.Thread(
            target=self._write, args=(self._lines,), name="relay-log", daemon=True
        )
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Formats the record and leaves it to the thread; never waits."""
        try:
            self._lines.put_nowait(self.format(record))
        except Exception:  # noqa: BLE001 - full, or cannot be formatted: neither may end a request
            self.dropped += 1

    def _write(self, lines: queue.Queue[str | None]) -> None:
        reported = self.dropped
        while (line := lines.get()) is not None:
            self._put(line, flush=lines.empty())
            if self.dropped > reported and lines.empty():
                self._put(self.format(_drop_report(self.dropped - reported)), flush=True)
                reported = self.dropped

    def _put(self, line: str, *, flush: bool) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(line + "\n")
            if flush:
                self._stream.flush()

    def close(self) -> None:
        """Writes what is waiting, for at most two seconds, and ends the thread."""
        _open_handlers.discard(self)
        self._end()
        super().close()

    def _end(self) -> None:
        with contextlib.suppress(queue.Full):
            self._lines.put(None, timeout=1.0)
            self._thread.join(timeout=1.0)


_open_handlers: weakref.WeakSet[BackgroundHandler] = weakref.WeakSet()


def _end_threads() -> None:
    for handler in list(_open_handlers):
        handler._end()  # noqa: SLF001 - one class, written in two places


def _begin_threads() -> None:
    for handler in list(_open_handlers):
        handler._begin()  # noqa: SLF001 - the same


os.register_at_fork(
    before=_end_threads, after_in_parent=_begin_threads, after_in_child=_begin_threads
)


def _drop_report(count: int) -> logging.LogRecord:
    message = f"{count} log records were dropped: the log is not read fast enough"
    return logging.LogRecord(f"{ROOT}.log", logging.WARNING, __file__, 0, message, None, None)


def configure_logging(
    level: Literal["debug", "info", "warning", "error"] = "info",
    style: Literal["auto", "console", "json"] = "auto",
    *,
    hide: tuple[Secret, ...] = (),
    stream: TextIO | None = None,
) -> BackgroundHandler:
    """Sends the records of this process to ``stream`` (standard error); replaces an earlier call.

    ``level`` is for the gateway's own loggers. Libraries are heard from warning upwards whatever it
    is: at debug some of them log headers and bodies. ``hide`` are credentials to mask wherever they
    turn up. Close the handler before the process ends.
    """
    target = stream or sys.stderr
    terminal = target.isatty()
    redact = Redactor(hide)
    handler = BackgroundHandler(target)
    console = style == "console" or (style == "auto" and terminal)
    handler.setFormatter(
        ConsoleFormatter(redact, colour=terminal) if console else JsonFormatter(redact)
    )
    root = logging.getLogger()
    for previous in [old for old in root.handlers if isinstance(old, BackgroundHandler)]:
        root.removeHandler(previous)
        previous.close()
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger(ROOT).setLevel(level.upper())
    return handler
