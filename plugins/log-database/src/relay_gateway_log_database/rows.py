"""From a usage record to its row and back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from operator import attrgetter
from typing import Any, TypeVar

import msgspec

from relay_gateway.plugin import PRICE_FIELDS, Attempt, GuardVisit, UsageRecord
from relay_gateway_log_database.histogram import bucket_of
from relay_gateway_log_database.tables import (
    BYTES,
    INLINE,
    METERS,
    NAMES,
    OUTCOMES,
    TIMES,
    usage_rows,
)

MAX_TEXT = 300
"""Longest name and longest text in a searched column, in characters: an index entry of PostgreSQL
is bounded. The column ``rest`` has the whole."""
MAX_INTEGER = (1 << 63) - 1
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

COLUMNS = tuple(column.name for column in usage_rows.columns)
"""Names of the columns in the order of :class:`Rows`."""

T = TypeVar("T")
_ID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}").fullmatch
_AS_WRITTEN = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3]):[0-9]{2}:[0-9]{2})\.([0-9]{3})Z"
).fullmatch
"""A time as the gateway writes it."""
_json = msgspec.json.Encoder()
_from_json = msgspec.json.Decoder(dict[str, Any])
_pack = msgspec.msgpack.Encoder()
_unpack = msgspec.msgpack.Decoder(list[tuple[int, int | None, int, int | None, float]])
_names = attrgetter(*NAMES)
_times = attrgetter(*TIMES)
_bytes = attrgetter(*BYTES)
_meters = tuple(METERS)
_no_meters: list[int | None] = [None] * len(_meters)
PLAIN = ("cost_nanos", "pricing_version", "status", "streamed", "unpriced")
PRICED = (*PRICE_FIELDS, "rest")
"""Columns that the price of a record is in."""
_outcomes = {code: outcome for outcome, code in OUTCOMES.items()}


def names_in(records: Iterable[UsageRecord]) -> set[str]:
    """All texts of ``records`` that rows refer to by number."""
    found: set[str | None] = set()
    for record in records:
        found.update(_names(record))
        for attempt in record.attempts:
            found.update((attempt.host_id, attempt.host_key_id, attempt.error))
    return {named(text) for text in found if text is not None}


class Rows:
    """Makes the rows of one batch, whose names have ``numbers``.

    This is most of what the gateway spends on a record: what nearly all records have is taken as it
    is, and only what does not fit is looked at one by one.
    """

    def __init__(self, numbers: Mapping[str, int]) -> None:
        self._numbers = numbers
        known: dict[str | None, int | None] = {None: None}
        known.update(numbers.items())
        self._number = known.__getitem__
        self._tags: dict[tuple[tuple[str, str], ...], str | None] = {(): None}
        """JSON of tags that fit into their column."""

    def of(self, record: UsageRecord) -> tuple[object, ...]:
        """Values of all columns, the request id as its text.

        Raises :class:`ValueError` when ``started_at`` is no RFC 3339 time or ``request_id`` no
        UUID.
        """
        rest: dict[str, object] = {"units": record.units} if record.units else {}
        if record.guards:
            rest["guards"] = record.guards
        first_token = record.ttft_ms
        return (
            _start(rest, record.started_at),
            checked_id(record.request_id),
            *_times(record),
            _integer(rest, "cost_nanos", record.cost_nanos),
            *_meter_values(rest, record.tokens),
            *_sizes(rest, record),
            *self._names(rest, record),
            record.pricing_version,
            record.status,
            OUTCOMES[record.outcome],
            bucket_of(record.duration_ms),
            None if first_token is None else bucket_of(first_token),
            record.streamed,
            record.unpriced,
            _text(rest, "client_request_id", record.client_request_id),
            _text(rest, "client_ip", record.client_ip),
            self._tagged(rest, record.tags),
            self._attempts(rest, record.attempts) if record.attempts else None,
            _json.encode(rest) if rest else None,
        )

    def _names(self, rest: dict[str, object], record: UsageRecord) -> list[int | None]:
        texts = _names(record)
        try:
            return list(map(self._number, texts))
        except KeyError:  # one of them is no name as it stands
            return [
                None if text is None else _number(rest, field, text, self._numbers)
                for field, text in zip(NAMES, texts, strict=True)
            ]

    def _tagged(self, rest: dict[str, object], tags: Mapping[str, str]) -> str | None:
        key = tuple(tags.items())
        try:
            return self._tags[key]
        except KeyError:
            searched = {named(name): named(value) for name, value in key}
            found = _json.encode(searched).decode()
            if searched == tags:
                self._tags[key] = found
            else:
                rest["tags"] = tags
            return found

    def _attempts(self, rest: dict[str, object], attempts: Sequence[Attempt]) -> bytes | None:
        number = self._number
        try:
            return _pack.encode(
                [
                    (
                        number(one.host_id),
                        number(one.host_key_id),
                        one.status,
                        number(one.error),
                        one.duration_ms,
                    )
                    for one in attempts
                ]
            )
        except (KeyError, OverflowError):  # a text that is no name as it stands, or a huge status
            rest["attempts"] = attempts
            return None


def record_of(row: Any, texts: Mapping[int, str]) -> UsageRecord:
    """The record as it was written; ``row`` has all columns, ``texts`` the names it refers to."""
    fields: dict[str, Any] = {
        field: None if (number := getattr(row, field)) is None else texts[number] for field in NAMES
    }
    for field in (*TIMES, *BYTES, *INLINE, *PLAIN):
        fields[field] = getattr(row, field)
    tokens = {
        meter: value
        for meter, column in METERS.items()
        if (value := getattr(row, column)) is not None
    }
    rest = {} if row.rest is None else _from_json.decode(row.rest)
    fields |= {
        "request_id": row.request_id,
        "started_at": started_at(row.started_us),
        "outcome": _outcomes[row.outcome],
        "tokens": tokens | rest.pop("tokens", {}),
        "tags": row.tags or {},
        "attempts": _attempts_of(row.attempts, texts),
    }
    if "attempts" in rest:
        fields["attempts"] = tuple(msgspec.convert(rest.pop("attempts"), list[Attempt]))
    if "guards" in rest:
        fields["guards"] = tuple(msgspec.convert(rest.pop("guards"), list[GuardVisit]))
    return UsageRecord(**fields | rest)


def priced_values(
    rest: bytes | None, record: UsageRecord, numbers: Mapping[str, int]
) -> dict[str, object]:
    """Values of the columns in ``PRICED`` for the price of ``record``; ``rest`` is what the row has
    in the column of this name."""
    kept = {} if rest is None else _from_json.decode(rest)
    for field in PRICE_FIELDS:
        kept.pop(field, None)
    names = {
        field: None
        if (text := getattr(record, field)) is None
        else _number(kept, field, text, numbers)
        for field in ("currency", "pricing_id")
    }
    return {
        **names,
        "cost_nanos": _integer(kept, "cost_nanos", record.cost_nanos),
        "pricing_version": record.pricing_version,
        "unpriced": record.unpriced,
        "rest": _json.encode(kept) if kept else None,
    }


def numbers_in(rows: Iterable[Any]) -> set[int]:
    """Numbers of all names that ``rows`` refer to."""
    found: set[int | None] = set()
    for row in rows:
        found.update(getattr(row, field) for field in NAMES)
        if row.attempts is not None:
            for host, key, _, error, _ in _unpack.decode(row.attempts):
                found.update((host, key, error))
    found.discard(None)
    return found  # type: ignore[return-value]


def slices(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """``items`` in pieces of ``size``; the last may be shorter."""
    return (items[first : first + size] for first in range(0, len(items), size))


def named(text: str) -> str:
    """``text`` as names and searched columns hold it: PostgreSQL has no NUL and bounds its index
    entries."""
    return text[:MAX_TEXT].replace("\0", "\N{REPLACEMENT CHARACTER}")


def is_id(request_id: str) -> bool:
    """Whether this is the usual text of a UUID: lower case, with hyphens."""
    return _ID(request_id) is not None


def checked_id(request_id: str) -> str:
    """``request_id``. Raises :class:`ValueError` where it is not the usual text of a UUID."""
    if not is_id(request_id):
        raise ValueError(f"request id {request_id[:64]!r} is not a UUID in lower case with hyphens")
    return request_id


def microseconds(time: str) -> int:
    """Microseconds since 1970 of an RFC 3339 time. Raises :class:`ValueError`."""
    written = _AS_WRITTEN(time)
    return _parsed(time) if written is None else _milliseconds(*written.groups())


def _milliseconds(second: str, milliseconds: str) -> int:
    return _second(second) + 1000 * int(milliseconds)


@lru_cache(maxsize=1024)
def _second(time: str) -> int:
    """Most records begin in the same second as many others."""
    return _parsed(f"{time}Z")


def _parsed(time: str) -> int:
    try:
        moment = datetime.fromisoformat(time)
    except ValueError as error:
        raise ValueError(f"{time!r} is not an RFC 3339 time") from error
    if moment.tzinfo is None:
        raise ValueError(f"{time!r} is not an RFC 3339 time: it has no offset; append Z for UTC")
    return (moment - EPOCH) // MICROSECOND


def started_at(started_us: int) -> str:
    """RFC 3339 UTC as the gateway writes it: with milliseconds, or more digits where they count."""
    digits = "microseconds" if started_us % 1000 else "milliseconds"
    moment = EPOCH + timedelta(microseconds=started_us)
    return f"{moment.replace(tzinfo=None).isoformat(timespec=digits)}Z"


def _start(rest: dict[str, object], time: str) -> int:
    written = _AS_WRITTEN(time)
    if written is not None:
        return _milliseconds(*written.groups())
    started = _parsed(time)
    if started_at(started) != time:
        rest["started_at"] = time
    return started


def _sizes(rest: dict[str, object], record: UsageRecord) -> tuple[int | None, ...]:
    sizes = _bytes(record)
    if max(sizes) <= MAX_INTEGER:
        return sizes
    return tuple(_integer(rest, field, size) for field, size in zip(BYTES, sizes, strict=True))


def _number(rest: dict[str, object], field: str, text: str, numbers: Mapping[str, int]) -> int:
    number = numbers.get(text)
    if number is None:
        rest[field] = text
        number = numbers[named(text)]
    return number


def _text(rest: dict[str, object], field: str, text: str | None) -> str | None:
    if text is None or (len(text) <= MAX_TEXT and "\0" not in text):
        return text
    rest[field] = text
    return named(text)


def _integer(rest: dict[str, object], field: str, value: int | None) -> int | None:
    if value is None or value <= MAX_INTEGER:
        return value
    rest[field] = value
    return MAX_INTEGER


def _meter_values(rest: dict[str, object], tokens: Mapping[str, int]) -> list[int | None]:
    if not tokens:
        return _no_meters
    values = list(map(tokens.get, _meters))
    if tokens.keys() <= METERS.keys() and max(tokens.values()) <= MAX_INTEGER:
        return values
    rest["tokens"] = {
        meter: value
        for meter, value in tokens.items()
        if meter not in METERS or value > MAX_INTEGER
    }
    return [value if value is None or value <= MAX_INTEGER else MAX_INTEGER for value in values]


def _attempts_of(packed: bytes | None, texts: Mapping[int, str]) -> tuple[Attempt, ...]:
    if packed is None:
        return ()
    return tuple(
        Attempt(
            host_id=texts[host],
            host_key_id=None if key is None else texts[key],
            status=status,
            error=None if error is None else texts[error],
            duration_ms=duration,
        )
        for host, key, status, error, duration in _unpack.decode(packed)
    )
