"""Relay keys in manifests: declared by digest, or minted when they are applied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from relay_gateway.catalog.envelope import EntityRow
from relay_gateway.catalog.kinds import KINDS
from relay_gateway.catalog.specs import RelayKeySpec, RelayKeyView
from relay_gateway.catalog.values import Instant
from relay_gateway.control.rules import KindRules, Prepared, dump
from relay_gateway.plugin import CatalogModel
from relay_gateway.secret import Secret
from relay_gateway.security.relay_keys import mint_relay_key

KIND = "relay key"


class DeclaredKey(CatalogModel):
    """A plaintext that somebody else keeps: its SHA-256 in hex and its first 16 characters."""

    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    prefix: Annotated[str, Field(pattern=r"^sk-relay-[0-9A-Za-z]{7}$")]


class RelayKeyDeclaration(RelayKeySpec):
    """The spec of a relay key in a manifest.

    Without ``key`` a new relay key gets a plaintext when it is applied, and one that is there keeps
    its own. ``revoked_at`` ends a key that is not ended yet; leaving it out does not revive one.
    """

    key: DeclaredKey | None = None
    revoked_at: Instant | None = None


class RelayKeyDeclarations(KindRules):
    """What storage is to keep of declared relay keys. ``minted`` has the plaintexts that were made,
    by id of the entity."""

    def __init__(self) -> None:
        super().__init__(KINDS[KIND])
        self.create_spec = RelayKeyDeclaration
        self.update_spec = RelayKeyView
        self.minted: dict[str, Secret] = {}

    async def prepare(
        self, entity_id: str, spec: RelayKeyDeclaration, previous: EntityRow | None
    ) -> Prepared:
        declared = dump(spec)
        key, revoked = declared.pop("key"), declared.pop("revokedAt")
        prefix, sealed = self._issued(entity_id, key, previous, revoked=revoked is not None)
        if previous is not None:
            revoked = previous.spec.get("revokedAt") or revoked
        if revoked is not None:
            sealed = {**sealed, "previous": []}
        return Prepared({**declared, "prefix": prefix, "revokedAt": revoked}, sealed)

    def _issued(
        self,
        entity_id: str,
        key: Mapping[str, Any] | None,
        previous: EntityRow | None,
        *,
        revoked: bool,
    ) -> tuple[str | None, dict[str, Any]]:
        """The beginning of the plaintext, and the digests of what is valid."""
        if previous is not None and (key is None or key["digest"] == previous.sealed.get("digest")):
            return previous.spec.get("prefix"), previous.sealed
        if key is not None:
            return key["prefix"], {"digest": key["digest"], "previous": []}
        minted = mint_relay_key()
        if not revoked:
            self.minted[entity_id] = minted.plaintext
        return minted.prefix, {"digest": minted.digest, "previous": []}
