"""What the spool and the sinks of one process have to say, as metrics."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from relay_gateway.delivery.delivery import Delivery
from relay_gateway.delivery.line import Breaker, Line
from relay_gateway.observe import families
from relay_gateway.observe.series import Series, series_of
from relay_gateway.plugin import UsageRecord


def delivery_series(delivery: Delivery) -> Iterator[Series]:
    """Everything about records on their way to their sinks."""
    for line in delivery.usage_lines.all:
        yield series_of(families.USAGE_QUEUE, line.depth, line.name)
        yield series_of(families.USAGE_DROPPED, line.dropped, line.name)
        yield series_of(families.DELIVERY_OLDEST, _age(line), line.name)
        yield from _line_series("usage", line)
    loggers = delivery.payload_lines.all
    yield series_of(families.PAYLOAD_QUEUE, sum(logger.depth for logger in loggers))
    yield series_of(families.PAYLOAD_DROPPED, sum(logger.dropped for logger in loggers))
    for logger in loggers:
        yield from _line_series("payload", logger)
    yield from _spool_series(delivery)


def _line_series(stream: str, line: Line[Any]) -> Iterator[Series]:
    down = int(line.breaker is not Breaker.CLOSED)
    yield series_of(families.DELIVERY_RETRIES, line.retries, stream, line.name)
    yield series_of(families.DELIVERY_SET_ASIDE, line.set_aside, stream, line.name)
    yield series_of(families.DELIVERY_DOWN, down, stream, line.name)


def _spool_series(delivery: Delivery) -> Iterator[Series]:
    spool = delivery.spool
    yield series_of(families.SPOOL_RESERVE, len(spool.usage.reserve))
    lost = {"usage": spool.usage.dropped, "payload": spool.payloads.dropped + delivery.desk.dropped}
    for journal in (spool.usage, spool.payloads):
        streams = [one for one in spool.streams if one.kind == journal.kind]
        size = sum(stream.size for stream in streams)
        yield series_of(families.SPOOL_BYTES, size, journal.kind)
        yield series_of(families.SPOOL_FAILURES, journal.failures, journal.kind)
        yield series_of(families.SPOOL_DAMAGED, spool.damaged(journal.kind), journal.kind)
        yield series_of(families.SPOOL_LOST, lost[journal.kind], journal.kind)


def _age(line: Line[UsageRecord]) -> float:
    oldest = line.oldest
    if oldest is None:
        return 0.0
    return max(0.0, time.time() - datetime.fromisoformat(oldest.started_at).timestamp())
