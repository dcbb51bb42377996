"""Names of objects: made of the records alone, so that a repetition writes the same object."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from uuid import UUID

from relay_gateway.plugin import UsageRecord

_PLAIN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")


def usage_objects(prefix: str, records: Iterable[UsageRecord]) -> dict[str, list[UsageRecord]]:
    """``records`` by the object that they belong into: one for each hour and instance, named after
    the first of them. Raises :class:`ValueError` for a time that is none."""
    hours: dict[tuple[str, str], list[UsageRecord]] = {}
    for record in records:
        hours.setdefault((_hour(record.started_at), record.instance), []).append(record)
    return {
        f"{prefix}{hour}instance-{_plain(instance)}-{_plain(found[0].request_id)}.jsonl.gz": found
        for (hour, instance), found in hours.items()
    }


def payload_object(prefix: str, request_id: str) -> str | None:
    """The one object of a request; ``None`` for an id that is not one of the gateway's.

    Its id tells the date, so that whoever reads has to know nothing else.
    """
    try:
        number = UUID(request_id)
    except ValueError:
        return None
    if number.version != 7 or str(number) != request_id:
        return None
    moment = datetime.fromtimestamp((number.int >> 80) / 1000, UTC)
    return f"{prefix}date={moment:%Y-%m-%d}/{request_id}.json.gz"


def _hour(started_at: str) -> str:
    try:
        moment = datetime.fromisoformat(started_at)
    except ValueError as error:
        raise ValueError(f"{started_at[:40]!r} is not an RFC 3339 time") from error
    return f"{moment.astimezone(UTC):date=%Y-%m-%d/hour=%H/}"


def _plain(text: str) -> str:
    """``text`` where it can be in a name as it is, else its digest."""
    if _PLAIN.fullmatch(text):
        return text
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
