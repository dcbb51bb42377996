"""Rewrap: what older master keys seal is sealed with the current one, value by value.

What is done is written in the rows themselves, so a rewrap that was broken off at any row goes on
where it was, and two at once only share the work. A row that somebody changes meanwhile is looked
at again. What cannot be opened is left as it is and reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec

from relay_gateway.catalog.compile import SEALED_FIELDS, seal_binding
from relay_gateway.catalog.envelope import EntityRow
from relay_gateway.control.master_key import MasterKeys
from relay_gateway.errors import (
    BatchRefusedError,
    CatalogError,
    EntityNotFoundError,
    MasterKeyError,
    SecretError,
    VersionConflictError,
)
from relay_gateway.plugin import SecretBackend
from relay_gateway.storage import Batch, CatalogStore, EntityChange, EntityUpdate
from relay_gateway.storage.master_keys import MasterKeyStore, sealed_references

BATCH = 20
"""So many entities are sealed anew in one transaction."""
MAX_PASSES = 50
"""How often entities that are changed all the time are looked at again."""
MAX_FAILURES = 100
_RACES = (EntityNotFoundError, VersionConflictError)


class RewrapFailure(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An entity whose value cannot be sealed anew, and why. It stays as it is."""

    kind: str
    id: str
    slug: str
    reason: str


class RewrapReport(msgspec.Struct, kw_only=True, rename="camel"):
    """How far a rewrap is: references to seal anew when it began, those that are, and those that
    cannot be (at most 100 of them are named)."""

    total: int = 0
    rewrapped: int = 0
    failed: int = 0
    failures: list[RewrapFailure] = msgspec.field(default_factory=list)


Progress = Callable[[RewrapReport], None]


class Rewrap:
    """Makes the current master keys the only ones."""

    def __init__(
        self, keys: MasterKeys, store: MasterKeyStore, catalog: CatalogStore, *, batch: int = BATCH
    ) -> None:
        self._keys = keys
        self._store = store
        self._catalog = catalog
        self._batch = batch
        self._failures: dict[str, RewrapFailure] = {}
        self.report = RewrapReport()

    async def run(self, progress: Progress = lambda _report: None) -> RewrapReport:
        """Retires all keys but the current ones, then seals anew what the others seal; calls
        ``progress`` after each transaction.

        Raises :class:`MasterKeyError` for keys that do not belong to this database, and when
        another rotation retires the key meanwhile; :class:`StorageUnavailableError`. It can then
        be run again.
        """
        await self._keys.check()
        backends = await self.usable()
        self.report.total = sum(state.remaining for state in await self._keys.status())
        for name, backend in backends.items():
            await self._rewrap(name, backend, progress)
        return self.report

    async def usable(self) -> Mapping[str, SecretBackend[Any]]:
        """The backends with a key to rotate to. A retired one is taken back: this is what an
        operator asks for who rotates to it.

        Raises :class:`MasterKeyError` as :meth:`run`.
        """
        usable = {}
        for name, backend in self._keys.sealing.items():
            verdict = await self._keys.verdict(name)
            if verdict.state in ("mismatch", "unavailable"):
                raise MasterKeyError(f"nothing is sealed anew: {verdict.trouble}")
            if verdict.state != "no-key":
                usable[name] = backend
        if not usable:
            raise MasterKeyError(
                "there is no master key to rotate to: set RELAY_MASTER_KEY, the new key first"
            )
        return usable

    async def _rewrap(self, name: str, backend: SecretBackend[Any], progress: Progress) -> None:
        current = backend.key_ids()[0]
        await self._store.begin_rewrap(name, current)
        for _ in range(MAX_PASSES):
            if await self._pass(name, backend, current, progress):
                await self._store.end_rewrap(name, current, failed=self.report.failed)
                return

    async def _pass(
        self, name: str, backend: SecretBackend[Any], current: str, progress: Progress
    ) -> bool:
        """Looks at every entity once; whether nothing is left to look at again."""
        settled, after = True, ""
        while rows := await self._store.sealed_rows(after):
            after = rows[-1].id
            stale = (row for row in rows if _is_stale(row, name, current))
            while some := list(islice(stale, self._batch)):
                updates = [u for row in some if (u := await self._resealed(row, backend, current))]
                done, raced = await self._write(updates)
                settled = settled and not raced
                if done:
                    await self._store.count_rewrapped(name, current, done)
                self.report.rewrapped += done
                self._tell()
                progress(self.report)
        return settled

    async def _write(self, updates: Sequence[EntityUpdate]) -> tuple[int, int]:
        """How many were written, and how many somebody else has changed meanwhile."""
        raced, left = 0, list(updates)
        while left:
            try:
                await self._catalog.write(Batch(update=left))
            except BatchRefusedError as error:
                raced += self._sort_out(left, error.refusals)
                left = [update for update in left if update.id not in error.refusals]
            else:
                break
        return len(left), raced

    def _sort_out(
        self, updates: Sequence[EntityUpdate], refusals: Mapping[str, CatalogError]
    ) -> int:
        raced = 0
        for update in updates:
            refusal = refusals.get(update.id)
            if isinstance(refusal, MasterKeyError):
                raise refusal
            if isinstance(refusal, _RACES):
                raced += 1
            elif refusal is not None:
                self._fail(update.kind, update.id, update.change.slug or "", str(refusal))
        return raced

    async def _resealed(
        self, row: EntityRow, backend: SecretBackend[Any], current: str
    ) -> EntityUpdate | None:
        """The write that seals the references of ``row`` anew; ``None`` when one cannot be."""
        spec, sealed = dict(row.spec), dict(row.sealed)
        try:
            for member, reference in _stale(row, backend.name, current):
                spec[member], sealed[member] = await _reseal(row, backend, member, reference)
        except (SecretError, ValueError, KeyError) as error:
            reason = str(error) if isinstance(error, SecretError) else "the row cannot be read"
            self._fail(row.kind, row.id, row.slug, reason)
            return None
        self._failures.pop(row.id, None)
        change = EntityChange(
            slug=row.slug,
            display_name=row.display_name,
            description=row.description,
            labels=row.labels,
            spec=spec,
            sealed=sealed,
        )
        return EntityUpdate(row.kind, row.id, change, expected_version=row.version)

    def _fail(self, kind: str, entity_id: str, slug: str, reason: str) -> None:
        self._failures[entity_id] = RewrapFailure(kind=kind, id=entity_id, slug=slug, reason=reason)

    def _tell(self) -> None:
        self.report.failed = len(self._failures)
        self.report.failures = list(islice(self._failures.values(), MAX_FAILURES))


def _is_stale(row: EntityRow, backend: str, current: str) -> bool:
    return any(True for _ in _stale(row, backend, current))


def _stale(row: EntityRow, backend: str, current: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for member, reference in sealed_references(row.sealed):
        if reference["kind"] == backend and reference["keyId"] != current:
            yield member, reference


async def _reseal(
    row: EntityRow, backend: SecretBackend[Any], member: str, reference: Mapping[str, Any]
) -> tuple[Any, Any]:
    """What reads show of the reference and what the catalog keeps, under the current key."""
    if SEALED_FIELDS.get(row.kind) != member:
        raise KeyError(member)
    binding = seal_binding(row.id, row.sealed["generation"], row.kind)
    stored = (backend.StoredRef or backend.Ref).model_validate(reference)
    resolved = await backend.resolve(stored, binding)
    kept = await backend.wrap(resolved.value, binding, stored)
    return _json(backend.publish(kept)), _json(kept)


def _json(reference: Any) -> Any:
    return reference.model_dump(mode="json", by_alias=True)
