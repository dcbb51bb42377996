"""Usage records as lines of a file: JSON, or CSV that a spreadsheet may open."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from relay_gateway.plugin import UsageRecord

_MEANT_AS_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_TOKENS = ("input", "output", "cacheRead", "cacheWrite", "reasoning")
_NESTED = {"tokens", "units", "tags", "attempts", "guards"}
_FIELDS = tuple(
    (field.encode_name, field.name)
    for field in msgspec.structs.fields(UsageRecord)
    if field.encode_name not in _NESTED
)
COLUMNS: tuple[str, ...] = (
    *(encoded for encoded, _ in _FIELDS),
    *(f"tokens.{name}" for name in _TOKENS),
    "otherTokens",
    "units",
    "tags",
    "attempts",
    "guards",
)
"""The columns of CSV. ``attempts`` is how many there were, ``guards`` what they did; what has no
column is JSON."""


class Format(msgspec.Struct, frozen=True):
    """How records are written: what comes first, and a line for each."""

    content_type: str
    head: bytes
    line: Callable[[UsageRecord], bytes]


def safe_text(text: str) -> str:
    """``text`` so that no spreadsheet takes it for a formula."""
    return f"'{text}" if text.startswith(_MEANT_AS_FORMULA) else text


def _json_line(record: UsageRecord) -> bytes:
    return msgspec.json.encode(record) + b"\n"


def _csv_line(record: UsageRecord) -> bytes:
    others = {name: count for name, count in record.tokens.items() if name not in _TOKENS}
    return _csv_row(
        [
            *(getattr(record, name) for _, name in _FIELDS),
            *(record.tokens.get(name) for name in _TOKENS),
            _json(others),
            _json(record.units),
            _json(record.tags),
            len(record.attempts),
            " ".join(f"{one.guard}:{one.phase}:{one.did}" for one in record.guards),
        ]
    )


def _json(value: Mapping[str, Any]) -> str | None:
    return msgspec.json.encode(value).decode() if value else None


def _csv_row(values: list[Any]) -> bytes:
    line = io.StringIO()
    csv.writer(line).writerow([_cell(value) for value in values])
    return line.getvalue().encode()


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        return safe_text(value)
    return str(value).lower() if isinstance(value, bool) else value


FORMATS: Mapping[str, Format] = {
    "jsonl": Format("application/x-ndjson", b"", _json_line),
    "csv": Format("text/csv; charset=utf-8; header=present", _csv_row(list(COLUMNS)), _csv_line),
}
"""How records can be exported."""
