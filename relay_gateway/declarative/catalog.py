"""The catalog as those see it who declare it: planned, changed as planned, and exported."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any

import msgspec

from relay_gateway.catalog.envelope import EntityRow
from relay_gateway.declarative.credentials import CredentialSources
from relay_gateway.declarative.documents import Providers, in_order
from relay_gateway.declarative.manifests import Manifest
from relay_gateway.declarative.plan import Plan
from relay_gateway.declarative.planning import Planner
from relay_gateway.declarative.price_import import ImportRequest, PriceImport
from relay_gateway.declarative.price_lists import ListedModel
from relay_gateway.declarative.problems import InvalidManifestsError, ManifestProblem
from relay_gateway.declarative.relay_keys import KIND as RELAY_KEY
from relay_gateway.declarative.selector import Selector, selects
from relay_gateway.errors import (
    BatchRefusedError,
    CatalogError,
    EntityReferencedError,
    InvalidEntityError,
)
from relay_gateway.storage import Batch, CatalogStore
from relay_gateway.storage.audit import Actor, acting

ATTEMPTS = 5
"""How often a plan is made anew because others write at the same time."""


class CatalogChangedError(CatalogError):
    """Somebody else wrote what a plan is about, so that it is not the plan any more."""

    def __init__(self) -> None:
        super().__init__(
            "the catalog was changed while the plan was looked at, and it would do something else "
            "now; nothing was written: run the command again"
        )


class ExportRequest(msgspec.Struct, frozen=True):
    """What to export. Without ``kinds`` that is every kind. ``adopt`` leaves out who manages an
    entity, so that files do once the result is applied; ``digests`` adds those of relay keys."""

    kinds: Collection[str] = ()
    selector: Selector | None = None
    adopt: bool = False
    digests: bool = False


class DeclaredCatalog:
    """The catalog behind ``apply``, ``export`` and ``catalog import``."""

    def __init__(
        self, store: CatalogStore, providers: Providers, sources: CredentialSources
    ) -> None:
        self._store = store
        self._providers = providers
        self._sources = sources

    async def planner(self) -> Planner:
        """What plans against the catalog as it is now."""
        return Planner((await self._store.load()).rows, self._providers, self._sources)

    async def plan(
        self,
        manifests: Sequence[Manifest],
        prune: Selector | None = None,
        *,
        rebind: bool = False,
    ) -> Plan:
        """What makes the catalog as declared; checked to the end, and nothing is written. With
        ``rebind`` credentials that are there may be sent to other addresses.

        Raises :class:`InvalidManifestsError` with everything that is wrong.
        """
        plan, problems = await (await self.planner()).plan(manifests, prune, rebind=rebind)
        batch = plan.batch()
        if problems:
            # What is wrong may be why something cannot be deleted.
            batch = Batch(create=batch.create, update=batch.update)
        by_entity = {(m.kind.name, m.slug): m for m in manifests}
        names = {
            step.after.id: by_entity[step.kind, step.slug] for step in plan.steps if step.after
        }
        incomplete = bool(problems)
        problems += await self._refusals(batch, names, incomplete=incomplete)
        if problems:
            raise InvalidManifestsError(problems)
        return plan

    async def carry_out(self, plan: Plan, again: Callable[[], Awaitable[Plan]]) -> Plan:
        """Writes ``plan`` at one revision, all or nothing, and returns what was written.

        When others wrote meanwhile, ``again`` plans anew; raises :class:`CatalogChangedError` when
        that is another plan.
        """
        token = acting.set(Actor(method="command"))
        try:
            for _ in range(ATTEMPTS):
                try:
                    await self._store.write(plan.batch())
                except BatchRefusedError as error:
                    renewed = await again()
                    if renewed != plan:
                        raise CatalogChangedError from error
                    plan = renewed
                else:
                    return plan
        finally:
            acting.reset(token)
        raise CatalogChangedError

    async def plan_import(self, listed: Sequence[ListedModel], request: ImportRequest) -> Plan:
        """What brings models and prices of a list into the catalog; nothing is written.

        Raises :class:`EntityNotFoundError` for a host that is not there, and
        :class:`BatchRefusedError` when the catalog refuses what would be written.
        """
        if request.host is not None:
            await self._store.get("host", request.host)
        rows = (await self._store.load()).rows
        importing = PriceImport(rows, request)
        for model in listed:
            importing.take(model)
        planner = Planner(rows, self._providers, self._sources)
        plan = planner.compare(importing.desired, notes=importing.notes)
        await self._store.write(plan.batch(), dry_run=True)
        return plan

    async def export(self, request: ExportRequest) -> list[dict[str, Any]]:
        """The entities asked for as documents, each kind after those that it must refer to."""
        rows = (await self._store.load()).rows
        writer = Planner(rows, self._providers, self._sources).writer()
        chosen = [
            row
            for row in in_order(rows)
            if (not request.kinds or row.kind in request.kinds)
            and selects(request.selector or {}, row.labels)
        ]
        return [_exported(writer.brief(row), row, request) for row in chosen]

    async def _refusals(
        self, batch: Batch, names: Mapping[str, Manifest], *, incomplete: bool
    ) -> list[ManifestProblem]:
        try:
            await self._store.write(batch, dry_run=True)
        except BatchRefusedError as error:
            return [
                problem
                for entity_id, refusal in error.refusals.items()
                for problem in _problems(refusal, names.get(entity_id))
                # Entities that are wrong in another way are not there to be referred to.
                if not (incomplete and problem.code == "reference_not_found")
            ]
        return []


def _problems(refusal: CatalogError, manifest: Manifest | None) -> list[ManifestProblem]:
    if isinstance(refusal, InvalidEntityError) and manifest is not None:
        return [manifest.problem(p.field, p.code, p.message) for p in refusal.problems]
    if isinstance(refusal, EntityReferencedError):
        return [ManifestProblem("--prune", 0, "", "", "still_referenced", str(refusal))]
    raise CatalogChangedError from refusal


def _exported(document: dict[str, Any], row: EntityRow, request: ExportRequest) -> dict[str, Any]:
    metadata = dict(document["metadata"])
    if request.adopt or row.managed_by == "file":
        del metadata["managedBy"]
    spec = dict(document["spec"])
    if request.digests and row.kind == RELAY_KEY:
        spec["key"] = {"digest": row.sealed["digest"], "prefix": row.spec["prefix"]}
    return {**document, "metadata": metadata, "spec": spec}
