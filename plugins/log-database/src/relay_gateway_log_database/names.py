"""Texts that many rows share: their numbers, remembered for a day at most.

Each day a name is noted once more when it is used, so that those nobody has used for as long as
rows are kept can be deleted. Numbers are never given twice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from relay_gateway.plugin import Clock
from relay_gateway_log_database.config import DAY_SECONDS
from relay_gateway_log_database.rows import named
from relay_gateway_log_database.tables import usage_names

MOST = 20_000
"""Names kept in memory. Callers choose some of them, so there may be very many."""
ASKED_AT_ONCE = 500


class Numbers:
    """Numbers of texts, for who writes and can ask the database for those that are not known."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[str, int] = {}
        self.day = 0
        """On which the texts asked for are used, since 1970."""

    def unknown(self, texts: Iterable[str]) -> Iterator[Sequence[str]]:
        """Those whose numbers are to be asked for, in portions, and then to be learnt."""
        day = int(self._clock.time()) // DAY_SECONDS
        if day != self.day or len(self._known) > MOST:
            self._known = {}
            self.day = day
        missing = sorted(set(texts) - self._known.keys())
        return (missing[n : n + ASKED_AT_ONCE] for n in range(0, len(missing), ASKED_AT_ONCE))

    def learn(self, numbers: Mapping[str, int]) -> None:
        """Remembers numbers of texts."""
        self._known.update(numbers)

    def of(self, texts: Iterable[str]) -> Mapping[str, int]:
        """The number of each text, all of them known."""
        known = self._known
        return {text: known[text] for text in texts}


class Texts:
    """Texts of numbers and numbers of texts, for who reads."""

    def __init__(self) -> None:
        self._known: dict[int, str] = {}

    async def of(self, connection: AsyncConnection, numbers: Iterable[int]) -> Mapping[int, str]:
        """The text of each number."""
        wanted = set(numbers)
        if len(self._known) > MOST:
            self._known = {}
        missing = sorted(wanted - self._known.keys())
        for first in range(0, len(missing), ASKED_AT_ONCE):
            some = usage_names.c.id.in_(missing[first : first + ASKED_AT_ONCE])
            found = await connection.execute(
                select(usage_names.c.id, usage_names.c.text).where(some)
            )
            self._known.update((row.id, row.text) for row in found)
        return {number: self._known[number] for number in wanted}


async def find_numbers(connection: AsyncConnection, texts: Collection[str]) -> Mapping[str, int]:
    """Numbers of those ``texts`` that any row has ever had."""
    if not texts:
        return {}
    by_name = {named(text): text for text in texts}
    found = await connection.execute(
        select(usage_names.c.text, usage_names.c.id).where(usage_names.c.text.in_(by_name))
    )
    return {by_name[row.text]: row.id for row in found}
