"""Writes batches to SQLite: one transaction, in few and long statements, in threads."""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import TypeVar

from sqlalchemy import Table

from relay_gateway.plugin import PluginContext, UsageRecord
from relay_gateway_log_database.names import Numbers, missing
from relay_gateway_log_database.rollups import (
    COLUMNS as SUM_COLUMNS,
)
from relay_gateway_log_database.rollups import (
    REPLACED,
    SHORTENED_EVERY,
    adding,
    long_histograms,
    replacing_histograms,
)
from relay_gateway_log_database.rows import COLUMNS, Rows, names_in
from relay_gateway_log_database.sqlite_file import SqliteFile
from relay_gateway_log_database.sums import (
    Key,
    Sum,
    Sums,
    daily,
    shortened_rows,
    steps_of,
    values_of,
)
from relay_gateway_log_database.tables import usage_daily, usage_hourly

ROWS = 100
"""Rows per statement, and the most that one call of a thread writes."""
FEWER_ROWS = (ROWS, 10, 1)
T = TypeVar("T")

_ID = COLUMNS.index("request_id")


class SqliteWriter:
    """Writes to one file, in threads.

    What gives a thread Python's lock and takes it away again costs more than a row, and so does
    what the event loop and the thread say to each other: so there are few statements, and a batch
    of few records is one call of a thread. Of a larger one each statement is, so that what waits
    for the lock, or for the processor where there is only one, gets it in between.
    """

    def __init__(self, file: SqliteFile, context: PluginContext) -> None:
        self._file = file
        self._numbers = Numbers(context.clock)
        self._currency = 0
        self._batches = 0

    async def write(self, records: Sequence[UsageRecord]) -> None:
        """Stores a batch, all of it or nothing. Raises :class:`ValueError` for a bad time or id."""
        steps = self._steps(records)
        if len(records) > ROWS:
            await self._file.change_by_steps(steps)
        else:
            await self._file.change(lambda _: deque(steps, maxlen=0))

    def _steps(self, records: Sequence[UsageRecord]) -> Iterator[None]:
        names: set[str] = set()
        for some in portions(records):
            names |= names_in(some)
            yield
        rows, sums = Rows(self._numbered(names)), Sums(self._currency)
        # From here on nobody else adds a record that is looked for and not found.
        self._file.connection.execute("BEGIN IMMEDIATE")
        for some in portions(records):
            self._keep(some, rows, sums)
            yield
        self._currency = sums.currency
        self._batches += 1
        hourly = sums.hourly()
        for rollup, found in ((usage_hourly, hourly), (usage_daily, daily(hourly))):
            for part in portions(list(found.items())):
                self._add(rollup, part)
                yield
            if self._batches % SHORTENED_EVERY == 0:
                self._shorten(rollup, found)
                yield

    def _numbered(self, names: Collection[str]) -> Mapping[str, int]:
        """The number of each name; they stay, whatever becomes of the batch that needs them."""
        day, known = self._numbers.today()
        for some in missing(names, known):
            values = [value for name in some for value in (name, day)]
            found = self._execute(_numbering(len(some)), values).fetchall()
            self._file.connection.commit()
            known.update(found)
        return {name: known[name] for name in names}

    def _keep(self, records: Sequence[UsageRecord], rows: Rows, sums: Sums) -> None:
        new: dict[bytes, tuple[object, ...]] = {}
        for record in records:
            row = rows.of(record)  # which checks the id first
            new.setdefault(bytes.fromhex(record.request_id.replace("-", "")), row)
        for known in self._known(list(new)):
            del new[known]
        if new:
            values: list[object] = []
            for request_id, row in new.items():
                values += row
                values[_ID - len(row)] = request_id
                sums.add(row)
            self._execute(_insertion(len(new)), values)

    def _known(self, ids: Sequence[bytes]) -> Sequence[bytes]:
        """Those of ``ids`` that are there already."""
        # One row of answer: Python's lock is given away for each.
        (found,) = self._execute(_search(len(ids)), ids).fetchone()
        return [bytes.fromhex(one) for one in found.split(",")] if found else []

    def _add(self, rollup: Table, sums: Sequence[tuple[Key, Sum]]) -> None:
        values = chain.from_iterable(values_of(dict(sums)))
        statement = _addition(rollup, len(sums))
        self._execute(statement, list(values))

    def _shorten(self, rollup: Table, sums: Mapping[Key, Sum]) -> None:
        steps = steps_of(sums)
        wanted = long_histograms(rollup, f"({','.join('?' * len(steps))})")
        shortened = shortened_rows(self._execute(wanted, steps).fetchall(), sums)
        for some in portions(shortened):
            values = list(chain.from_iterable(some))
            self._execute(replacing_histograms(rollup, _places(REPLACED, len(some))), values)

    def _execute(self, statement: str, values: Sequence[object]) -> sqlite3.Cursor:
        return self._file.connection.execute(statement, values)


def portions(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """``items`` in pieces of a hundred, then one of some tens, then one of less than ten: that are
    19 sizes at most, each of which is a statement that stays prepared."""
    start = 0
    for step in FEWER_ROWS:
        size = (len(items) - start) // step * step
        for first in range(start, start + size, ROWS):
            yield items[first : min(first + ROWS, start + size)]
        start += size


def _places(columns: Sequence[str], rows: int) -> str:
    row = f"({','.join('?' * len(columns))})"
    return f"VALUES {','.join([row] * rows)}"


@cache
def _insertion(rows: int) -> str:
    return f"INSERT INTO usage_rows ({','.join(COLUMNS)}) {_places(COLUMNS, rows)}"


@cache
def _search(ids: int) -> str:
    return (
        "SELECT group_concat(hex(request_id)) FROM usage_rows "  # noqa: S608 - places only
        f"WHERE request_id IN ({','.join('?' * ids)})"
    )


@cache
def _addition(rollup: Table, rows: int) -> str:
    return adding(rollup, _places(SUM_COLUMNS, rows), blob="BLOB")


@cache
def _numbering(rows: int) -> str:
    return (
        f"INSERT INTO usage_names (text, used_on) VALUES {','.join(['(?,?)'] * rows)} "  # noqa: S608
        "ON CONFLICT (text) DO UPDATE SET used_on = max(used_on, excluded.used_on) "
        "RETURNING text, id"
    )
