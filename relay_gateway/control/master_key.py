"""The master keys of this instance, held against those that the database belongs to.

The first instance that seals with a key leaves a canary in the database: a known value under that
key. An instance proves a new key by opening the canary of an older one, which is then also in its
list. Whoever can prove nothing cannot write sealed values; nothing is ever changed because of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from relay_gateway.control.value_from import Backends
from relay_gateway.errors import SecretError
from relay_gateway.plugin import RowBinding, SecretBackend, SecretRef
from relay_gateway.secret import Secret
from relay_gateway.storage.master_keys import KeyRow, MasterKeyStore, Why, sealed_references

CANARY = Secret("relay-gateway canary")
"""What canaries hold: no secret, but nobody without the key can make one."""

State = Literal["good", "no-key", "mismatch", "retired", "unavailable"]


class Verdict(msgspec.Struct, frozen=True):
    """What came of holding keys against the database. ``proven`` says that the key which seals may
    be added to it, ``trouble`` what is wrong and to be done."""

    state: State
    proven: bool = False
    trouble: str | None = None


class KeyUse(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One master key by its id: whether this instance has it, and how many references it seals."""

    key_id: str
    references: int
    in_ring: bool
    current: bool
    state: Literal["in-force", "retired", "unknown"]
    added_at: str | None = None
    retired_at: str | None = None
    removable: bool = False


class RewrapState(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The last rewrap to the current key. ``unfinished`` is one that runs elsewhere or was broken
    off; another rotation goes on with it."""

    state: Literal["never", "unfinished", "finished"]
    began_at: str | None = None
    ended_at: str | None = None
    rewrapped: int = 0


class BackendKeys(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The master keys of one secret backend. ``remaining`` references are sealed with other keys
    than the current one, ``unreadable`` of them with keys that this instance does not have."""

    backend: str
    state: State
    trouble: str | None = None
    current_key_id: str | None = None
    keys: tuple[KeyUse, ...] = ()
    remaining: int = 0
    unreadable: int = 0
    rewrap: RewrapState = RewrapState(state="never")


class MasterKeys:
    """Proves and tells. Every method raises :class:`StorageUnavailableError` when the database
    cannot be asked."""

    def __init__(self, store: MasterKeyStore, backends: Backends) -> None:
        self._store = store
        self.sealing = {name: backend for name, backend in backends.items() if backend.seals}

    async def check(self) -> dict[str, str]:
        """Holds the keys against the database and adds those that are proven; the troubles of this
        instance, by backend."""
        troubles = {}
        for name, backend in self.sealing.items():
            verdict = await self._settled(name, backend)
            if verdict.trouble is not None:
                troubles[name] = verdict.trouble
        return troubles

    async def verdict(self, name: str) -> Verdict:
        """What :meth:`check` would find of one backend; nothing is added."""
        backend = self.sealing[name]
        return await self._examine(name, backend, await self._keys_of(name))

    async def adopt(self) -> list[str]:
        """Lets this instance's current keys seal although nothing proves them; the ids of those
        that were added. What other keys seal stays, and is of no use without them."""
        added = []
        for name, backend in self.sealing.items():
            known = {key.key_id for key in await self._keys_of(name)}
            current = next(iter(backend.key_ids()), None)
            if current is not None and current not in known:
                await self._add(name, backend, "adopted")
                added.append(current)
        return added

    async def status(self) -> list[BackendKeys]:
        """Every sealing backend with its keys and how many references each of them seals."""
        counted = await self._count()
        return [
            await self._status(name, backend, counted.get(name, Counter()))
            for name, backend in self.sealing.items()
        ]

    async def _settled(self, name: str, backend: SecretBackend[Any]) -> Verdict:
        known = await self._keys_of(name)
        verdict = await self._examine(name, backend, known)
        if not verdict.proven:
            return verdict
        await self._add(name, backend, "proven" if known else "first")
        # Somebody else may have been faster, with another key.
        return await self._examine(name, backend, await self._keys_of(name))

    async def _examine(
        self, name: str, backend: SecretBackend[Any], known: Sequence[KeyRow]
    ) -> Verdict:
        try:
            ring = backend.key_ids()
        except SecretError as error:
            return Verdict("unavailable", trouble=str(error))
        if not ring:
            needed = known or await self._references(name)
            return Verdict("no-key", trouble=_WITHOUT_KEY if needed else None)
        opened = {key.key_id for key in known if await _opens(backend, key)}
        if ring[0] in opened:
            key = next(key for key in known if key.key_id == ring[0])
            if key.retired_at is None:
                return Verdict("good")
            return Verdict("retired", trouble=_retired(key, known))
        if known:
            proven = bool(opened.intersection(ring))
        else:
            # Sealed before there were canaries, or nothing is sealed yet.
            sealed_with = await self._references(name)
            proven = not sealed_with or any(key_id in sealed_with for key_id in ring)
        if proven:
            return Verdict("good", proven=True)
        return Verdict("mismatch", trouble=_mismatch(ring, known))

    async def _references(self, name: str) -> Counter[str]:
        return (await self._count()).get(name, Counter())

    async def _keys_of(self, name: str) -> list[KeyRow]:
        return [key for key in await self._store.keys() if key.backend == name]

    async def _add(self, name: str, backend: SecretBackend[Any], why: Why) -> None:
        canary = await backend.wrap(CANARY, _binding(name), None)
        document = canary.model_dump(mode="json", by_alias=True)
        await self._store.add(name, document["keyId"], document, why)

    async def _count(self) -> dict[str, Counter[str]]:
        """How many references each key seals, by backend."""
        counted: dict[str, Counter[str]] = {}
        after = ""
        while rows := await self._store.sealed_rows(after):
            after = rows[-1].id
            for row in rows:
                for _, reference in sealed_references(row.sealed):
                    counted.setdefault(reference["kind"], Counter())[reference["keyId"]] += 1
        return counted

    async def _status(
        self, name: str, backend: SecretBackend[Any], counted: Counter[str]
    ) -> BackendKeys:
        known = await self._keys_of(name)
        verdict = await self._examine(name, backend, known)
        ring = backend.key_ids() if verdict.state != "unavailable" else ()
        current = ring[0] if ring else None
        return BackendKeys(
            backend=name,
            state=verdict.state,
            trouble=verdict.trouble,
            current_key_id=current,
            keys=tuple(_uses(ring, known, counted)),
            remaining=counted.total() - counted[current or ""],
            unreadable=sum(count for key_id, count in counted.items() if key_id not in ring),
            rewrap=_rewrap_state(next((key for key in known if key.key_id == current), None)),
        )


_WITHOUT_KEY = (
    "credentials are stored here, and this instance has no master key: they cannot be used and "
    "none can be written; set RELAY_MASTER_KEY"
)


def _mismatch(ring: Sequence[str], known: Sequence[KeyRow]) -> str:
    belong = ", ".join(key.key_id for key in known if key.retired_at is None)
    whose = f", whose keys are {belong}" if belong else ""
    return (
        f"the master keys of this instance ({', '.join(ring)}) do not belong to this database"
        f"{whose}: nothing is changed, but credentials stored with other keys cannot be used here "
        "and none can be written; put the right key into RELAY_MASTER_KEY, or give the stored "
        "credentials up with `relay-gateway master-key adopt`"
    )


def _retired(key: KeyRow, known: Sequence[KeyRow]) -> str:
    in_force = ", ".join(other.key_id for other in known if other.retired_at is None)
    return (
        f"this instance seals with master key {key.key_id}, which was retired at {key.retired_at}: "
        f"no credential can be written here until {in_force} is the first of RELAY_MASTER_KEY"
    )


def _uses(ring: Sequence[str], known: Sequence[KeyRow], counted: Mapping[str, int]) -> list[KeyUse]:
    rows = {key.key_id: key for key in known}
    return [
        KeyUse(
            key_id=key_id,
            references=counted.get(key_id, 0),
            in_ring=key_id in ring,
            current=key_id == (ring[0] if ring else None),
            state=_state(rows.get(key_id)),
            added_at=rows[key_id].added_at if key_id in rows else None,
            retired_at=rows[key_id].retired_at if key_id in rows else None,
            removable=_is_retired(rows.get(key_id)) and not counted.get(key_id),
        )
        for key_id in dict.fromkeys([*ring, *rows, *counted])
    ]


def _state(row: KeyRow | None) -> Literal["in-force", "retired", "unknown"]:
    if row is None:
        return "unknown"
    return "in-force" if row.retired_at is None else "retired"


def _is_retired(row: KeyRow | None) -> bool:
    return row is not None and row.retired_at is not None


def _rewrap_state(row: KeyRow | None) -> RewrapState:
    if row is None or row.rewrap_began_at is None:
        return RewrapState(state="never")
    return RewrapState(
        state="finished" if row.rewrap_ended_at else "unfinished",
        began_at=row.rewrap_began_at,
        ended_at=row.rewrap_ended_at,
        rewrapped=row.rewrapped,
    )


def _binding(backend: str) -> RowBinding:
    return RowBinding("master key", backend, "canary", 1)


async def _opens(backend: SecretBackend[Any], key: KeyRow) -> bool:
    """Whether the canary of ``key`` opens, which only the key itself can do."""
    model = backend.StoredRef or backend.Ref
    try:
        stored: SecretRef = model.model_validate(key.canary)
        resolved = await backend.resolve(stored, _binding(key.backend))
    except (SecretError, ValueError):
        return False
    return resolved.value.matches(CANARY.reveal()) and key.canary.get("keyId") == key.key_id
