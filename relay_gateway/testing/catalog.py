"""A catalog in memory: entities by a few words each, and the snapshot that they make."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from relay_gateway.catalog.build import build_snapshot
from relay_gateway.catalog.envelope import EntityRow
from relay_gateway.catalog.snapshot import Snapshot
from relay_gateway.errors import SecretNotFoundError
from relay_gateway.ids import new_id
from relay_gateway.plugin import (
    CONTENT,
    LAST,
    TERMINAL,
    USAGE_ONLY,
    Endpoint,
    PluginConfig,
    ResolvedSecret,
    RowBinding,
    Secret,
    SecretBackend,
    SecretRef,
    UpstreamProvider,
    UsageMeter,
    UsageOption,
    WireFormat,
)
from relay_gateway.security.relay_keys import MintedKey, mint_relay_key
from relay_gateway.testing.context import plugin_context

_WHEN = "2026-01-01T00:00:00.000000Z"


class PlainMeter(UsageMeter):
    """Meters the plain format: ``in:out`` is all there is to an answer, events are single words."""

    def body(self, body: bytes) -> None:
        """``b"3:5"`` is three tokens in and five out."""
        given, _, taken = body.partition(b":")
        self.reading.tokens = {"input": int(given), "output": int(taken)}

    def event(self, name: bytes, data: bytes) -> int:
        """``usage in:out`` carries figures, ``end`` ends the answer, ``over`` is its last word;
        everything else is content."""
        if data.startswith(b"usage "):
            self.body(data[6:])
            return USAGE_ONLY
        if data == b"over":
            return TERMINAL | LAST
        return TERMINAL if data == b"end" else CONTENT


class PlainFormat(WireFormat):
    """A wire format of few words, so that a test shows what matters."""

    name = "plain.chat"
    endpoints = (Endpoint("chat", "/v1/plain", "/plain"),)
    usage_option = UsageOption("stream_options", "include_usage")
    output_limits = ("max_tokens", "options.max_tokens")

    def meter(self) -> UsageMeter:
        """A fresh meter."""
        return PlainMeter()


class PlainProvider(UpstreamProvider[PluginConfig]):
    """Speaks the plain format with a bearer credential."""

    name = "plain"
    wire_formats = ("plain.chat",)
    defines = (PlainFormat,)


class TableRef(SecretRef):
    """``valueFrom`` of :class:`TableBackend`."""

    kind: Literal["table"] = "table"
    entry: str


class TableBackend(SecretBackend[PluginConfig]):
    """Secrets from a dictionary; ``fetches`` counts how often each was asked for."""

    name = "table"
    Ref = TableRef

    def __init__(self, table: Mapping[str, str] | None = None, directory: Any = None) -> None:
        super().__init__(PluginConfig(), plugin_context(directory, plugin="table"))
        self.table = dict(table or {})
        self.fetches: list[str] = []

    async def resolve(self, stored: SecretRef, binding: RowBinding) -> ResolvedSecret:
        """The entry of the table."""
        assert isinstance(stored, TableRef)
        self.fetches.append(stored.entry)
        if stored.entry not in self.table:
            raise SecretNotFoundError(f"the table has no entry {stored.entry!r}")
        return ResolvedSecret(Secret(self.table[stored.entry]))


class CatalogDraft:
    """Entities that grow line by line; each method answers the new entity's id."""

    def __init__(self) -> None:
        self.rows: list[EntityRow] = []

    def add(
        self, kind: str, slug: str, spec: Mapping[str, Any], sealed: Mapping[str, Any] | None = None
    ) -> str:
        """An entity of any kind; ``spec`` is camelCase JSON."""
        row = EntityRow(
            id=new_id(),
            kind=kind,
            slug=slug,
            display_name=slug,
            spec=dict(spec),
            sealed=dict(sealed or {}),
            created_at=_WHEN,
            updated_at=_WHEN,
        )
        self.rows.append(row)
        return row.id

    def host(self, slug: str = "east", **spec: Any) -> str:
        """A host of the plain provider."""
        defaults = {"baseUrl": f"http://{slug}.test", "adapter": "plain"}
        return self.add("host", slug, defaults | spec)

    def model(self, slug: str, host_ids: list[str], *, provider_id: str, **spec: Any) -> str:
        """A model that is bound to ``host_ids`` in this order."""
        bindings = [
            {"hostId": host_id, "priority": index} for index, host_id in enumerate(host_ids)
        ]
        return self.add("model", slug, {"providerId": provider_id, "bindings": bindings} | spec)

    def policy(self, slug: str = "all", **spec: Any) -> str:
        """A policy that grants everything unless told otherwise."""
        return self.add("policy", slug, {"models": ["*"]} | spec)

    def host_key(self, slug: str, host_id: str, policy_id: str, **spec: Any) -> str:
        """A host key whose credential is the entry ``slug`` of the table backend."""
        value_from = {"kind": "table", "entry": slug}
        fields = {"hostId": host_id, "policyId": policy_id, "valueFrom": value_from}
        return self.add("host key", slug, fields | spec, {"valueFrom": value_from, "generation": 1})

    def relay_key(self, slug: str, policy_id: str, **spec: Any) -> MintedKey:
        """A relay key; answers its plaintext and digest."""
        minted = mint_relay_key()
        fields = {"policyId": policy_id, "prefix": minted.prefix, "revokedAt": None}
        self.add("relay key", slug, fields | spec, {"digest": minted.digest, "previous": []})
        return minted

    def snapshot(
        self,
        providers: Mapping[str, UpstreamProvider],
        backends: Mapping[str, SecretBackend],
        revision: int = 1,
    ) -> Snapshot:
        """The snapshot of everything added so far."""
        return build_snapshot(revision, self.rows, providers=providers, backends=backends)
