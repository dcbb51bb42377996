"""From a usage record to its row and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from operator import attrgetter

import msgspec

from relay_gateway.plugin import UsageRecord
from relay_gateway_log_database.tables import METERS, TEXT_COLUMNS, usage_records

MAX_TEXT = 300
"""Longest text in a searched column, in characters: an index entry of PostgreSQL is bounded. The
JSON has the whole."""
MAX_INTEGER = (1 << 63) - 1
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

COLUMNS = tuple(column.name for column in usage_records.columns)
"""Names of the columns in the order of :func:`row_of`."""

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(UsageRecord)
_texts = attrgetter(*TEXT_COLUMNS)
_meters = tuple(METERS)


def row_of(record: UsageRecord) -> tuple[object, ...]:
    """Values of all columns. Raises :class:`ValueError` when ``started_at`` is no RFC 3339 time."""
    text = _encoder.encode(record).decode()
    tokens = record.tokens.get
    return (
        record.request_id,
        microseconds(record.started_at),
        *_searched_texts(record, text),
        record.status,
        record.streamed,
        record.unpriced,
        record.duration_ms,
        record.ttft_ms,
        _integer(record.cost_nanos),
        *[_integer(tokens(meter)) for meter in _meters],
        _searched_tags(record),
        text,
    )


def record_of(text: str) -> UsageRecord:
    """The record as it was written."""
    return _decoder.decode(text)


def slices(records: Sequence[UsageRecord], size: int) -> Iterator[Sequence[UsageRecord]]:
    """``records`` in pieces of ``size``; the last may be shorter."""
    return (records[first : first + size] for first in range(0, len(records), size))


def searched(text: str | None) -> str | None:
    """``text`` as searched columns hold it: PostgreSQL has no NUL and bounds its index entries."""
    return None if text is None else text[:MAX_TEXT].replace("\0", "\N{REPLACEMENT CHARACTER}")


def microseconds(time: str) -> int:
    """Microseconds since 1970 of an RFC 3339 time. Raises :class:`ValueError`."""
    try:
        moment = datetime.fromisoformat(time)
    except ValueError as error:
        raise ValueError(f"{time!r} is not an RFC 3339 time") from error
    if moment.tzinfo is None:
        raise ValueError(f"{time!r} is not an RFC 3339 time: it has no offset; append Z for UTC")
    return (moment - EPOCH) // MICROSECOND


def _searched_texts(record: UsageRecord, as_json: str) -> list[str | None]:
    texts: Sequence[str | None] = _texts(record)
    if "\\" in as_json:  # JSON writes a NUL with one; most records have none
        return [searched(text) for text in texts]
    return [text if text is None or len(text) <= MAX_TEXT else text[:MAX_TEXT] for text in texts]


def _searched_tags(record: UsageRecord) -> str:
    tags = {searched(name): searched(value) for name, value in record.tags.items()}
    return _encoder.encode(tags).decode()


def _integer(value: int | None) -> int | None:
    return value if value is None or value <= MAX_INTEGER else MAX_INTEGER
