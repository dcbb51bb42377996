"""Texts that many rows share: their numbers, remembered for a day at most.

Each day a name is noted once more when it is used, so that those nobody has used for as long as
rows are kept can be deleted. Numbers are never given twice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TypeVar

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from relay_gateway.plugin import Clock
from relay_gateway_log_database.config import DAY_SECONDS
from relay_gateway_log_database.rows import named
from relay_gateway_log_database.tables import usage_names

MOST = 20_000
"""Names kept in memory. Callers choose some of them, so there may be very many."""
ASKED_AT_ONCE = 500
NameT = TypeVar("NameT", int, str)
"""A text or its number."""


class Numbers:
    """Numbers of texts, for who writes and can ask the database for those that are not known."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[str, int] = {}
        self._day = 0

    def today(self) -> tuple[int, dict[str, int]]:
        """The day, since 1970, and the numbers of texts that were used on it, as far as they are
        known: whoever asks for more adds them, and can go on with these when another day begins."""
        day = int(self._clock.time()) // DAY_SECONDS
        if day != self._day or len(self._known) > MOST:
            self._known = {}
            self._day = day
        return day, self._known


def missing(wanted: Collection[NameT], known: Mapping[NameT, object]) -> Iterator[list[NameT]]:
    """Those that are ``wanted`` and not ``known``, in portions to ask for."""
    found = sorted(set(wanted) - known.keys())
    return (found[n : n + ASKED_AT_ONCE] for n in range(0, len(found), ASKED_AT_ONCE))


class Texts:
    """Texts of numbers and numbers of texts, for who reads."""

    def __init__(self) -> None:
        self._known: dict[int, str] = {}

    async def of(self, connection: AsyncConnection, numbers: Iterable[int]) -> Mapping[int, str]:
        """The text of each number."""
        wanted = set(numbers)
        if len(self._known) > MOST:
            self._known = {}
        known = self._known  # another reader may begin a new one meanwhile
        for some in missing(wanted, known):
            found = await connection.execute(
                select(usage_names.c.id, usage_names.c.text).where(usage_names.c.id.in_(some))
            )
            known.update((row.id, row.text) for row in found)
        return {number: known[number] for number in wanted}


async def find_numbers(connection: AsyncConnection, texts: Collection[str]) -> Mapping[str, int]:
    """Numbers of those ``texts`` that any row has ever had."""
    if not texts:
        return {}
    by_name = {named(text): text for text in texts}
    found = await connection.execute(
        select(usage_names.c.text, usage_names.c.id).where(usage_names.c.text.in_(by_name))
    )
    return {by_name[row.text]: row.id for row in found}
