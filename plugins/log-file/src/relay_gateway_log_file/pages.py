"""Pages of records, newest first, and the cursor between them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator
from contextlib import suppress
from heapq import heappush, heappushpop

import msgspec

from relay_gateway.plugin import LogPage, LogQuery, UsageRecord
from relay_gateway_log_file.archive import Archive, Budget, Source
from relay_gateway_log_file.filters import Conditions, conditions_of
from relay_gateway_log_file.lines import BEGINNING, microseconds, record_of, stamp_of

MAX_LIMIT = 1000

Position = tuple[int, str]
"""Start in microseconds, and the id: the order of the list."""
_positions = msgspec.json.Decoder(Position)


class NewestLines:
    """The ``size`` newest lines of all that were added."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._order: list[Position] = []
        self._lines: dict[Position, bytes] = {}

    @property
    def oldest(self) -> Position | None:
        """What a line must be newer than, once there are enough."""
        return self._order[0] if len(self._order) == self._size else None

    def add(self, position: Position, line: bytes) -> None:
        """Keeps ``line``, unless all others are newer or it is there already."""
        if position in self._lines:
            return
        self._lines[position] = line
        if len(self._order) < self._size:
            heappush(self._order, position)
        else:
            del self._lines[heappushpop(self._order, position)]

    def newest_first(self) -> list[tuple[Position, bytes]]:
        """What was kept."""
        return sorted(self._lines.items(), reverse=True)


class Search:
    """One search through the files."""

    def __init__(self, query: LogQuery, budget: Budget) -> None:
        """Raises :class:`ValueError` saying what is wrong with ``query``."""
        if not 1 <= query.limit <= MAX_LIMIT:
            raise ValueError(f"limit is from 1 to {MAX_LIMIT}, not {query.limit}")
        self._conditions = _conditions(query)
        self._before = None if query.cursor is None else _position_of(query.cursor)
        self._limit = query.limit
        self._found = NewestLines(query.limit + 1)  # one more tells whether there are more
        self._budget = budget

    def look_into(self, archive: Archive, source: Source) -> None:
        """Reads ``source`` where the page may have a line of it."""
        oldest, before = self._found.oldest, self._before
        start, end = self._conditions.start, self._conditions.end
        if before is not None:
            end = before[0] + 1 if end is None else min(end, before[0] + 1)
        if oldest is not None:
            start = oldest[0] if start is None else max(start, oldest[0])
        if not source.overlaps(start, end):
            return
        damaged = 0
        for piece in archive.pieces(source):
            self._budget.spend(len(piece))
            damaged += self._look_at(piece)
        archive.report_damage(source, damaged)

    def page(self) -> LogPage:
        """What was found."""
        found = self._found.newest_first()
        shown = found[: self._limit]
        return LogPage(
            items=tuple(_records(line for _, line in shown)),
            next_cursor=_cursor(shown[-1][0]) if len(found) > self._limit else None,
        )

    def _look_at(self, piece: bytes) -> int:
        """Takes the lines that are wanted; tells how many are damaged."""
        damaged = 0
        for line in piece.split(b"\n")[:-1]:
            if self._conditions.may_match(line):
                try:
                    self._take(line)
                except ValueError:
                    damaged += 1
        return damaged

    def _take(self, line: bytes) -> None:
        stamp = stamp_of(line)
        position = microseconds(stamp.started_at), stamp.request_id
        oldest = self._found.oldest
        if (oldest is None or position > oldest) and self._is_wanted(position, line):
            self._found.add(position, line)

    def _is_wanted(self, position: Position, line: bytes) -> bool:
        return (
            (self._before is None or position < self._before)
            and self._conditions.in_period(position[0])
            and (not self._conditions.decodes or self._conditions.match(record_of(line)))
        )


def find_page(archive: Archive, query: LogQuery) -> LogPage:
    """The page that ``query`` wants. Raises :class:`ValueError` for a wrong query or one that
    would read too much."""
    search = Search(query, archive.budget())
    with archive.sources() as sources:
        for source in sources:
            search.look_into(archive, source)
    return search.page()


def find_record(archive: Archive, request_id: str) -> UsageRecord | None:
    """The record of a request, or ``None``."""
    needle = BEGINNING + msgspec.json.encode(request_id)[1:] + b","
    line = archive.find(request_id, needle)
    return None if line is None else record_of(line)


def _records(lines: Iterable[bytes]) -> Iterator[UsageRecord]:
    for line in lines:
        with suppress(ValueError):  # a stamp was found in it, but the rest is damaged
            yield record_of(line)


def _conditions(query: LogQuery) -> Conditions:
    return conditions_of(query.start, query.end, query.equals, query.tags, query.text)


def _cursor(position: Position) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(position)).decode().rstrip("=")


def _position_of(cursor: str) -> Position:
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        position: Position = _positions.decode(
            base64.b64decode(padded, altchars=b"-_", validate=True)
        )
    except (UnicodeError, binascii.Error, msgspec.MsgspecError) as error:
        raise ValueError(
            "cursor is not one that a page of this list gave: begin again without it"
        ) from error
    return position
