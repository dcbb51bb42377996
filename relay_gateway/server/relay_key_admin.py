"""Relay keys for commands: made, listed, rotated and revoked without a running gateway."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from relay_gateway.catalog.envelope import EntityRow, MetadataInput
from relay_gateway.catalog.fields import list_fields
from relay_gateway.catalog.kinds import KINDS
from relay_gateway.catalog.specs import RelayKeySpec
from relay_gateway.control.bodies import validate
from relay_gateway.control.relay_keys import KIND, create_relay_key, revoke, rotate, utc_now
from relay_gateway.errors import InvalidEntityError
from relay_gateway.secret import Secret
from relay_gateway.security.relay_keys import mint_relay_key
from relay_gateway.storage import CatalogStore, Listing, RelayKeyUses

_PAGE = 1000


class RelayKeyOrder(msgspec.Struct, frozen=True, kw_only=True):
    """A relay key to be made. ``policy`` and ``rate_limits`` are slugs or ids."""

    name: str
    policy: str = "default"
    description: str = ""
    expires_at: datetime | None = None
    allowed_cidrs: Sequence[str] = ()
    tags: Mapping[str, str] = msgspec.field(default_factory=dict)
    rate_limits: Sequence[str] = ()
    payload_logging: bool = False


class KnownRelayKey(msgspec.Struct, frozen=True):
    """A relay key, and when it was last used, to the minute; ``None`` for never."""

    row: EntityRow
    last_used_at: str | None


class RelayKeyAdmin:
    """What commands do with relay keys. Running gateways see each write within a second."""

    def __init__(self, store: CatalogStore, uses: RelayKeyUses) -> None:
        self._store = store
        self._uses = uses

    async def create(self, order: RelayKeyOrder) -> tuple[Secret, EntityRow]:
        """Makes a key; the plaintext is in the answer only.

        Raises :class:`EntityNotFoundError`, and :class:`InvalidEntityError` for what a relay key
        cannot have.
        """
        policy = await self._store.get("policy", order.policy)
        limits = [(await self._store.get("rate limit", ref)).id for ref in order.rate_limits]
        metadata, problems = validate(
            MetadataInput, {"displayName": order.name, "description": order.description}, "metadata"
        )
        spec, more = validate(RelayKeySpec, _spec_of(order, policy.id, limits), "spec")
        if metadata is None or spec is None:
            raise InvalidEntityError([*problems, *more])
        minted, row = await create_relay_key(self._store, metadata, spec)
        return minted.plaintext, row

    async def rotate(self, ref: str, grace_seconds: int) -> tuple[Secret, EntityRow]:
        """A new plaintext for a relay key; the old one stays valid for ``grace_seconds``."""
        row = await self._store.get(KIND, ref)
        minted = mint_relay_key()
        change = rotate(row, minted, grace_seconds, utc_now())
        updated = await self._store.update(KIND, row.id, change, expected_version=row.version)
        return minted.plaintext, updated

    async def revoke(self, ref: str) -> EntityRow:
        """Ends a relay key at once and for good."""
        row = await self._store.get(KIND, ref)
        change = revoke(row, utc_now())
        return await self._store.update(KIND, row.id, change, expected_version=row.version)

    async def find(self, ref: str) -> KnownRelayKey:
        """One relay key. Raises :class:`EntityNotFoundError`."""
        row = await self._store.get(KIND, ref)
        return KnownRelayKey(row, (await self._uses.of([row.id])).get(row.id))

    async def list(self, policy: str | None) -> list[KnownRelayKey]:
        """All relay keys, or those of one policy (slug or id), in order of creation."""
        listing = Listing()
        if policy is not None:
            found = await self._store.get("policy", policy)
            listing = Listing(filters=((list_fields(KINDS[KIND])["policyId"], [found.id]),))
        known: list[KnownRelayKey] = []
        cursor: str | None = None
        while True:
            page = await self._store.page(KIND, limit=_PAGE, cursor=cursor, listing=listing)
            uses = await self._uses.of([row.id for row in page.items])
            known += [KnownRelayKey(row, uses.get(row.id)) for row in page.items]
            cursor = page.next_cursor
            if cursor is None:
                return known


def _spec_of(order: RelayKeyOrder, policy_id: str, limits: Sequence[str]) -> dict[str, object]:
    return {
        "policyId": policy_id,
        "expiresAt": order.expires_at,
        "allowedCidrs": list(order.allowed_cidrs),
        "tags": dict(order.tags),
        "rateLimitIds": list(limits),
        "payloadLogging": order.payload_logging,
    }
