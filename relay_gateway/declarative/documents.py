"""Entities as manifests: what ``export`` writes, and in what words plans speak of changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from relay_gateway.catalog.compile import SEALED_FIELDS
from relay_gateway.catalog.envelope import EntityRow
from relay_gateway.catalog.kinds import KINDS, replace_references
from relay_gateway.control.rules import KindRules
from relay_gateway.declarative.manifests import hyphenated
from relay_gateway.plugin import SecretBackend, UpstreamProvider

Rules = Mapping[str, KindRules]
Providers = Mapping[str, UpstreamProvider[Any]]
Backends = Mapping[str, SecretBackend[Any]]


class DocumentWriter:
    """Turns rows into documents in which references are slugs."""

    def __init__(
        self,
        rows: Iterable[EntityRow],
        rules: Rules,
        providers: Providers,
        backends: Backends,
    ) -> None:
        self._slugs = {row.id: row.slug for row in rows}
        self._rules = rules
        self._providers = providers
        self._backends = backends

    def full(self, row: EntityRow) -> dict[str, Any]:
        """Everything that a manifest can say about ``row``, defaults included."""
        spec = self._rules[row.kind].show(row)
        return self._document(row, self._with_slugs(row, self._without_state(row, spec)))

    def brief(self, row: EntityRow) -> dict[str, Any]:
        """As :meth:`full`, without what is the default anyway. A row that does not validate is
        given as it is."""
        spec = self._without_state(row, _without_defaults(self._rules[row.kind].update_spec, row))
        if row.kind == "host" and "adapterConfig" in spec:
            config = self._brief_config(row, spec.pop("adapterConfig"))
            spec |= {"adapterConfig": config} if config else {}
        return self._document(row, self._with_slugs(row, spec), brief=True)

    def _brief_config(self, row: EntityRow, config: Any) -> Any:
        provider = self._providers.get(row.spec.get("adapter", ""))
        return _dumped(provider.HostConfig, config) if provider else config

    def _with_slugs(self, row: EntityRow, spec: Mapping[str, Any]) -> dict[str, Any]:
        def slug(_kind: str, entity_id: str) -> str:
            return self._slugs.get(entity_id, entity_id)

        return replace_references(KINDS[row.kind], spec, slug)

    def _without_state(self, row: EntityRow, spec: Mapping[str, Any]) -> dict[str, Any]:
        """``spec`` without what the server alone decides."""
        kept = {name: value for name, value in spec.items() if name != "prefix"}
        if kept.get("revokedAt", "") is None:
            del kept["revokedAt"]
        field = SEALED_FIELDS.get(row.kind)
        reference = kept.get(field) if field else None
        if field and isinstance(reference, dict):
            kept[field] = self._reference(reference)
        return kept

    def _reference(self, shown: Mapping[str, Any]) -> dict[str, Any]:
        """A reference to a credential: of one that is stored, nothing but where."""
        kind = str(shown.get("kind"))
        backend = self._backends.get(kind)
        if backend is None or backend.PublicRef is not None:
            return {"kind": kind} if backend else dict(shown)
        return {"kind": kind, **_dumped(backend.Ref, shown)}

    def _document(
        self, row: EntityRow, spec: Mapping[str, Any], *, brief: bool = False
    ) -> dict[str, Any]:
        metadata: dict[str, Any] = {
            "slug": row.slug,
            "displayName": row.display_name,
            "description": row.description,
            "labels": dict(sorted(row.labels.items())),
            "managedBy": row.managed_by,
        }
        if brief:
            metadata = {name: value for name, value in metadata.items() if value}
        return {"kind": hyphenated(row.kind), "metadata": metadata, "spec": dict(spec)}


def _without_defaults(model: type[BaseModel], row: EntityRow) -> dict[str, Any]:
    found = _dumped(model, row.spec)
    return found if isinstance(found, dict) else dict(row.spec)


def _dumped(model: type[BaseModel], value: Any) -> Any:
    try:
        return model.model_validate(value).model_dump(
            mode="json", by_alias=True, exclude_defaults=True
        )
    except ValidationError:
        return value


def in_order(rows: Iterable[EntityRow]) -> Iterator[EntityRow]:
    """``rows`` by kind, each kind after those that it must refer to, and slug."""
    positions = {kind: position for position, kind in enumerate(KINDS)}
    return iter(sorted(rows, key=lambda row: (positions[row.kind], row.slug)))
