"""Slugs: minting a free one, refusing a taken one."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from relay_gateway.errors import SlugTakenError
from relay_gateway.ids import slugify
from relay_gateway.storage.tables import entities

MAX_LENGTH = 63
SIGNIFICANT = 50
"""Every numbered form of a slug begins with as many characters of it."""


async def mint_slug(connection: AsyncConnection, kind: str, display_name: str) -> str:
    """The slug that ``display_name`` suggests, with ``-2``, ``-3``, … where it is taken."""
    base = slugify(display_name)
    if await slug_owner(connection, kind, base) is None:
        return base
    beginning = base[:SIGNIFICANT]
    similar = await connection.scalars(
        select(entities.c.slug).where(
            # A range walks the index; "~" comes after all that a slug is made of.
            entities.c.kind == kind,
            entities.c.slug.between(beginning, beginning + "~"),
        )
    )
    taken = set(similar)
    candidates = (_numbered(base, number) for number in range(2, len(taken) + 3))
    return next(candidate for candidate in candidates if candidate not in taken)


async def claim_slug(connection: AsyncConnection, kind: str, slug: str, entity_id: str) -> None:
    """Raises :class:`SlugTakenError` when another entity of this kind has ``slug``."""
    owner = await slug_owner(connection, kind, slug)
    if owner is not None and owner != entity_id:
        raise SlugTakenError(kind, slug)


async def slug_owner(connection: AsyncConnection, kind: str, slug: str) -> str | None:
    """The id of the entity that has ``slug``, or ``None``."""
    owner: str | None = await connection.scalar(
        select(entities.c.id).where(entities.c.kind == kind, entities.c.slug == slug)
    )
    return owner


def _numbered(base: str, number: int) -> str:
    suffix = f"-{number}"
    return base[: MAX_LENGTH - len(suffix)].rstrip("-") + suffix
