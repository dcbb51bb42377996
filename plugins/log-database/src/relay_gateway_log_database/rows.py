"""From a usage record to its row and back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec

from relay_gateway.plugin import UsageRecord
from relay_gateway_log_database.tables import METERS, TEXT_COLUMNS

MAX_TEXT = 300
"""Longest text in a searched column, in characters: an index entry of PostgreSQL is bounded. The
JSON has the whole."""
MAX_INTEGER = (1 << 63) - 1
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(UsageRecord)


def row_of(record: UsageRecord) -> dict[str, object]:
    """Values of all columns. Raises :class:`ValueError` when ``started_at`` is no RFC 3339 time."""
    row: dict[str, object] = {name: searched(getattr(record, name)) for name in TEXT_COLUMNS}
    row.update((column, _integer(record.tokens.get(meter))) for meter, column in METERS.items())
    row.update(
        request_id=record.request_id,
        started_us=microseconds(record.started_at),
        status=record.status,
        streamed=record.streamed,
        unpriced=record.unpriced,
        duration_ms=record.duration_ms,
        ttft_ms=record.ttft_ms,
        cost_nanos=_integer(record.cost_nanos),
        tags={searched(name): searched(value) for name, value in record.tags.items()},
        record=_encoder.encode(record).decode(),
    )
    return row


def record_of(text: str) -> UsageRecord:
    """The record as it was written."""
    return _decoder.decode(text)


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
    return (moment - EPOCH) // timedelta(microseconds=1)


def _integer(value: int | None) -> int | None:
    return None if value is None else min(value, MAX_INTEGER)
