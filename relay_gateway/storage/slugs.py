"""Slugs: minting a free one, refusing a taken one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from relay_gateway.ids import slugify
from relay_gateway.storage.rows import portions
from relay_gateway.storage.tables import entities

MAX_LENGTH = 63
SIGNIFICANT = 50
"""Every numbered form of a slug begins with as many characters of it."""


async def slug_owners(
    connection: AsyncConnection, kind: str, slugs: Collection[str]
) -> dict[str, str]:
    """The ids of the entities of this kind that have ``slugs``."""
    owners: dict[str, str] = {}
    for wanted in portions(slugs):
        rows = await connection.execute(
            select(entities.c.slug, entities.c.id).where(
                entities.c.kind == kind, entities.c.slug.in_(wanted)
            )
        )
        owners.update((row.slug, row.id) for row in rows)
    return owners


async def mint_slug(connection: AsyncConnection, kind: str, display_name: str) -> str:
    """The slug that ``display_name`` suggests, with ``-2``, ``-3``, … where it is taken."""
    owners = await slug_owners(connection, kind, [slugify(display_name)])
    return await SlugMint(connection, kind, owners).mint(display_name)


class SlugMint:
    """Makes slugs of one kind; ``taken`` has those that are not to be had, and every slug that was
    made or given since."""

    def __init__(self, connection: AsyncConnection, kind: str, taken: Collection[str] = ()) -> None:
        self._connection = connection
        self._kind = kind
        self.taken = set(taken)
        self._looked = set[str]()
        self._next: defaultdict[str, int] = defaultdict(lambda: 2)

    async def mint(self, display_name: str) -> str:
        """The slug that ``display_name`` suggests, with ``-2``, ``-3``, … where it is taken.

        Whether it is taken in the database must be known from ``taken`` already.
        """
        slug = base = slugify(display_name)
        if base in self.taken:
            await self._look(base[:SIGNIFICANT])
        while slug in self.taken:
            slug = _numbered(base, self._next[base])
            self._next[base] += 1
        self.taken.add(slug)
        return slug

    async def _look(self, beginning: str) -> None:
        if beginning in self._looked:
            return
        self._looked.add(beginning)
        similar = await self._connection.scalars(
            select(entities.c.slug).where(
                # A range walks the index; "~" comes after all that a slug is made of.
                entities.c.kind == self._kind,
                entities.c.slug.between(beginning, beginning + "~"),
            )
        )
        self.taken.update(similar)


def _numbered(base: str, number: int) -> str:
    suffix = f"-{number}"
    return base[: MAX_LENGTH - len(suffix)].rstrip("-") + suffix
