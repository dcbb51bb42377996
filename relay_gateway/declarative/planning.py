"""From manifests to a plan: references resolved, all checked, compared with what is there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any
from uuid import UUID

from relay_gateway.catalog.compile import SEALED_FIELDS
from relay_gateway.catalog.envelope import EntityRow
from relay_gateway.catalog.kinds import KINDS, find_references, replace_references
from relay_gateway.control.bodies import validate
from relay_gateway.control.entities import EntityForms
from relay_gateway.control.host_keys import HostKeyRules
from relay_gateway.control.hosts import HostRules, ModelRules
from relay_gateway.control.rules import KindRules, Prepared, no_statuses
from relay_gateway.declarative.credentials import CredentialSources
from relay_gateway.declarative.documents import DocumentWriter, Providers, in_order
from relay_gateway.declarative.manifests import Manifest
from relay_gateway.declarative.plan import FieldChange, Plan, Step, changes_between, hidden_change
from relay_gateway.declarative.problems import ManifestProblem
from relay_gateway.declarative.relay_keys import KIND as RELAY_KEY
from relay_gateway.declarative.relay_keys import RelayKeyDeclarations
from relay_gateway.declarative.selector import Selector, selects
from relay_gateway.errors import EntityNotFoundError, FieldProblem, InvalidEntityError, Referrer
from relay_gateway.ids import is_id, new_id

Key = tuple[str, str]
"""Kind and slug."""
_NOTHING: Mapping[str, Any] = {"metadata": {}, "spec": {}}


class Planner:
    """Plans against the catalog as it is in ``rows``."""

    def __init__(
        self, rows: Sequence[EntityRow], providers: Providers, sources: CredentialSources
    ) -> None:
        self._rows = rows
        self._by_key = {(row.kind, row.slug): row for row in rows}
        self._by_id = {row.id: row for row in rows}
        self._providers = providers
        self._sources = sources
        self._keys = RelayKeyDeclarations()
        self._drafts: dict[str, EntityRow] = {}
        self.rules = self._kind_rules()
        self._forms = {name: EntityForms(rules).create for name, rules in self.rules.items()}

    def writer(self, more: Iterable[EntityRow] = ()) -> DocumentWriter:
        """What turns the rows of the catalog, and ``more``, into documents."""
        rows = chain(self._rows, more)
        return DocumentWriter(rows, self.rules, self._providers, self._sources.backends)

    async def plan(
        self,
        manifests: Sequence[Manifest],
        prune: Selector | None = None,
        *,
        rebind: bool = False,
    ) -> tuple[Plan, list[ManifestProblem]]:
        """What makes the catalog as declared, without manifests that are wrong, and what is wrong
        with these. With ``prune`` it also deletes what that selects, is managed by files, and is
        not declared. With ``rebind`` credentials that are there may be sent elsewhere."""
        ids = {_key(m): self._id_of(m) for m in manifests}
        self._drafts = {ids[_key(m)]: _draft(m, ids[_key(m)]) for m in manifests}
        problems: list[ManifestProblem] = []
        desired: list[EntityRow] = []
        for manifest in manifests:
            row, found = await self._desired(manifest, ids)
            if row is not None and not (found or rebind):
                found = await self._redirections(manifest, row)
            problems += found
            if row is not None and not found:
                desired.append(row)
        superfluous = [] if prune is None else self._prunable(prune, ids.keys())
        return self.compare(desired, superfluous), problems

    def compare(
        self,
        desired: Sequence[EntityRow],
        superfluous: Sequence[EntityRow] = (),
        notes: Sequence[str] = (),
    ) -> Plan:
        """The plan that makes ``desired`` of what is there and deletes what is ``superfluous``."""
        writer = self.writer(desired)
        steps = [self._step(writer, row) for row in in_order(desired)]
        removals = [
            Step("delete", row.kind, row.slug, before=row)
            for row in reversed(list(in_order(superfluous)))
        ]
        taken = [step for step in steps if step is not None]
        minted = {
            step.slug: self._keys.minted[step.after.id]
            for step in taken
            if step.after is not None and step.after.id in self._keys.minted
        }
        unchanged = len(steps) - len(taken)
        return Plan((*taken, *removals), unchanged, tuple(notes), minted)

    def _step(self, writer: DocumentWriter, row: EntityRow) -> Step | None:
        before = self._by_id.get(row.id)
        if before is None:
            changes = changes_between(_NOTHING, _content(writer.brief(row)))
            return Step("create", row.kind, row.slug, tuple(changes), None, row)
        changes = changes_between(writer.full(before), writer.full(row))
        if before.sealed != row.sealed:
            changes += _sealed_change(row, changes)
        if not changes:
            return None
        return Step("update", row.kind, row.slug, tuple(changes), before, row)

    def _prunable(self, prune: Selector, declared: Iterable[Key]) -> list[EntityRow]:
        named = set(declared)
        return [
            row
            for row in self._rows
            if row.managed_by == "file"
            and selects(prune, row.labels)
            and (row.kind, row.slug) not in named
        ]

    def _id_of(self, manifest: Manifest) -> str:
        row = self._by_key.get(_key(manifest))
        return row.id if row is not None else new_id()

    async def _desired(
        self, manifest: Manifest, ids: Mapping[Key, str]
    ) -> tuple[EntityRow | None, list[ManifestProblem]]:
        rules = self.rules[manifest.kind.name]
        entity_id = ids[_key(manifest)]
        previous = self._by_id.get(entity_id)
        spec, problems = self._resolved(manifest, ids)
        problems += await self._sources.fill(manifest, spec, previous)
        metadata = {"displayName": manifest.slug, **manifest.metadata}
        form = self._forms[manifest.kind.name]
        body, faults = validate(form, {"metadata": metadata, "spec": spec})
        faults += await rules.inspect(spec, previous)
        prepared = None
        if body is not None and not faults and not problems:
            try:
                prepared = await rules.prepare(entity_id, body.spec, previous)
            except InvalidEntityError as error:
                faults = list(error.problems)
        problems += _unseen(manifest, faults, problems)
        if body is None or prepared is None:
            return None, problems
        row = EntityRow(
            id=entity_id,
            kind=manifest.kind.name,
            slug=manifest.slug,
            display_name=body.metadata.display_name,
            description=body.metadata.description,
            labels=body.metadata.labels,
            managed_by=manifest.managed_by,
            spec=prepared.spec,
            sealed=prepared.sealed,
        )
        return row, problems

    async def _redirections(self, manifest: Manifest, row: EntityRow) -> list[ManifestProblem]:
        """What would send credentials that are there to another place."""
        previous = self._by_id.get(row.id)
        if previous is None:
            return []
        prepared = Prepared(row.spec, row.sealed)
        keys = await self.rules[row.kind].redirected_keys(previous, prepared)
        names = ", ".join(sorted({key.slug for key in keys}))
        message = f"sends host keys elsewhere ({names}); --confirm-rebind says that this is meant"
        return [manifest.problem("spec", "rebind_not_confirmed", message)] if names else []

    def _resolved(
        self, manifest: Manifest, ids: Mapping[Key, str]
    ) -> tuple[dict[str, Any], list[ManifestProblem]]:
        """The spec with ids for references, and those that lead nowhere."""

        def resolve(target: str, ref: str) -> str:
            return self._resolve(target, ref, ids) or ref

        problems = [
            manifest.problem(
                f"spec.{reference.field}",
                "reference_not_found",
                f"no {reference.target} has the slug or id {reference.id!r}, neither here nor in "
                "the catalog",
            )
            for reference in find_references(manifest.kind, manifest.spec)
            if self._resolve(reference.target, reference.id, ids) is None
        ]
        return replace_references(manifest.kind, manifest.spec, resolve), problems

    def _resolve(self, target: str, ref: str, ids: Mapping[Key, str]) -> str | None:
        if is_id(ref):
            row = self._by_id.get(str(UUID(ref)))
            return row.id if row is not None and row.kind == target else None
        row = self._by_key.get((target, ref))
        return ids.get((target, ref)) or (row.id if row is not None else None)

    def _kind_rules(self) -> dict[str, KindRules]:
        backends = self._sources.backends
        own: dict[str, KindRules] = {
            "host": HostRules(self, self._providers, backends, no_statuses),
            "model": ModelRules(self, self._providers),
            "host key": HostKeyRules(backends, no_statuses),
            RELAY_KEY: self._keys,
        }
        return {name: own.get(name) or KindRules(kind) for name, kind in KINDS.items()}

    async def get(self, kind: str, ref: str) -> EntityRow:
        """The entity with the id ``ref`` as it will be. Raises :class:`EntityNotFoundError`."""
        row = self._drafts.get(ref) or self._by_id.get(ref)
        if row is None or row.kind != kind:
            raise EntityNotFoundError(kind, ref)
        return row

    async def referrers(self, kind: str, ref: str) -> Sequence[Referrer]:
        """Who points at the entity with the id ``ref`` now."""
        return [
            Referrer(row.kind, row.id, row.slug, f"spec.{reference.field}")
            for row in self._rows
            for reference in find_references(KINDS[row.kind], row.spec)
            if reference.target == kind and reference.id == ref
        ]


def _key(manifest: Manifest) -> Key:
    return manifest.kind.name, manifest.slug


def _draft(manifest: Manifest, entity_id: str) -> EntityRow:
    """A manifest as others see it that refer to it, whatever else is wrong with it."""
    adapter, formats = manifest.spec.get("adapter"), manifest.spec.get("wireFormats")
    spec = {
        "adapter": adapter if isinstance(adapter, str) else "",
        "wireFormats": formats if isinstance(formats, list) else [],
    }
    return EntityRow(
        id=entity_id,
        kind=manifest.kind.name,
        slug=manifest.slug,
        display_name=manifest.slug,
        spec=spec,
    )


def _content(document: Mapping[str, Any]) -> dict[str, Any]:
    return {name: part for name, part in document.items() if name != "kind"}


def _sealed_change(row: EntityRow, changes: Sequence[FieldChange]) -> list[FieldChange]:
    field = f"spec.{SEALED_FIELDS.get(row.kind, 'key')}"
    told = any(change.field.startswith((field, "spec.revokedAt")) for change in changes)
    return [] if told else [hidden_change(field)]


def _unseen(
    manifest: Manifest, faults: Sequence[FieldProblem], problems: Sequence[ManifestProblem]
) -> list[ManifestProblem]:
    seen = {problem.field for problem in problems}
    return [
        manifest.problem(fault.field, fault.code, fault.message)
        for fault in faults
        if not any(fault.field == name or fault.field.startswith(f"{name}.") for name in seen)
    ]
