"""Relay keys: minted here, shown once, kept as digests; rotated and revoked."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from relay_gateway.catalog.envelope import EntityRow, MetadataInput
from relay_gateway.catalog.kinds import KINDS
from relay_gateway.catalog.specs import RelayKeySpec, RelayKeyView
from relay_gateway.control.rules import KindRules, Prepared, dump
from relay_gateway.errors import FieldProblem, InvalidEntityError, StorageUnavailableError
from relay_gateway.ids import new_id
from relay_gateway.security.relay_keys import MintedKey, mint_relay_key
from relay_gateway.storage import CatalogStore, EntityChange, NewEntity, RelayKeyUses

KIND = "relay key"

_log = logging.getLogger(__name__)


class RelayKeyRules(KindRules):
    """Updates keep digest, prefix and revocation; a client may send the last two back unchanged."""

    has_status = True

    def __init__(self, uses: RelayKeyUses) -> None:
        super().__init__(KINDS[KIND])
        self._uses = uses
        self.update_spec = RelayKeyView
        self.documented_output = RelayKeyView

    async def statuses(self, rows: Sequence[EntityRow]) -> Mapping[str, Mapping[str, Any]]:
        try:
            uses = await self._uses.of([row.id for row in rows])
        except StorageUnavailableError as error:
            # A write may have been made already, and its answer must not depend on this.
            _log.warning("the last uses of relay keys cannot be shown: %s", error)
            return {}
        return {row.id: {"lastUsedAt": uses.get(row.id)} for row in rows}

    async def inspect(
        self, spec: Mapping[str, Any], previous: EntityRow | None
    ) -> list[FieldProblem]:
        if previous is None:
            return []
        return [
            FieldProblem(f"spec.{name}", "read_only", "is set by the server and cannot be changed")
            for name in ("prefix", "revokedAt")
            if name in spec and spec[name] != previous.spec.get(name)
        ]

    async def prepare(
        self, entity_id: str, spec: RelayKeySpec, previous: EntityRow | None
    ) -> Prepared:
        if previous is None:
            return Prepared(dump(spec))
        owned = {name: previous.spec.get(name) for name in ("prefix", "revokedAt")}
        return Prepared({**dump(spec), **owned}, previous.sealed)


async def create_relay_key(
    store: CatalogStore, metadata: MetadataInput, spec: RelayKeySpec
) -> tuple[MintedKey, EntityRow]:
    """Mints a relay key and stores its digest. The plaintext is in the answer and nowhere else.

    Raises as :meth:`CatalogStore.create`.
    """
    minted = mint_relay_key()
    prepared = issued(spec, minted)
    row = await store.create(
        NewEntity(
            kind=KIND,
            id=new_id(),
            slug=metadata.slug,
            display_name=metadata.display_name,
            description=metadata.description,
            labels=metadata.labels,
            spec=prepared.spec,
            sealed=prepared.sealed,
        )
    )
    return minted, row


def issued(spec: RelayKeySpec, minted: MintedKey) -> Prepared:
    """What storage keeps of a new relay key."""
    return Prepared(
        {**dump(spec), "prefix": minted.prefix, "revokedAt": None},
        {"digest": minted.digest, "previous": []},
    )


def unissued(row: EntityRow) -> EntityRow:
    """A relay key as a dry run shows it: with the prefix of no plaintext."""
    return msgspec.structs.replace(row, spec={**row.spec, "prefix": None})


def rotate(row: EntityRow, minted: MintedKey, grace_seconds: int, now: datetime) -> EntityChange:
    """The change that gives a relay key a new plaintext; the old one is valid for the grace time.

    Raises :class:`InvalidEntityError` for a revoked key.
    """
    if row.spec.get("revokedAt") is not None:
        message = f"relay key {row.slug!r} is revoked for good; create another one"
        raise InvalidEntityError([FieldProblem("spec.revokedAt", "revoked", message)])
    former = [item for item in row.sealed["previous"] if item["until"] > _text(now)]
    if grace_seconds:
        until = _text(now + timedelta(seconds=grace_seconds))
        former.append({"digest": row.sealed["digest"], "until": until})
    return _change(
        row,
        {**row.spec, "prefix": minted.prefix},
        {"digest": minted.digest, "previous": former},
    )


def revoke(row: EntityRow, now: datetime) -> EntityChange:
    """The change that ends a relay key and its former plaintexts at once; ended ones stay so."""
    return _change(
        row,
        {**row.spec, "revokedAt": row.spec.get("revokedAt") or _text(now)},
        {**row.sealed, "previous": []},
    )


def utc_now() -> datetime:
    """The time by which keys are rotated and revoked."""
    return datetime.now(UTC)


def _change(row: EntityRow, spec: dict[str, Any], sealed: dict[str, Any]) -> EntityChange:
    return EntityChange(
        display_name=row.display_name,
        description=row.description,
        labels=row.labels,
        spec=spec,
        sealed=sealed,
    )


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
