"""Rows on their way into the next snapshot; relay keys are compiled as they come."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

import msgspec

from relay_gateway.catalog.compile import UNREADABLE, compile_relay_key, digests_of, quarantine
from relay_gateway.catalog.envelope import EntityRow
from relay_gateway.catalog.garbage import MANY
from relay_gateway.catalog.snapshot import PresentedKey, QuarantinedRow
from relay_gateway.catalog.tables import Patch

RELAY_KEY = "relay key"
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(EntityRow).decode


class KeyChange(msgspec.Struct, frozen=True):
    """Relay keys that changed: what their digests stand for now, which digests (with the ids of
    keys) stood for something before, and rows that cannot be read."""

    presented: dict[bytes, PresentedKey] = msgspec.field(default_factory=dict)
    former: list[tuple[bytes, str]] = msgspec.field(default_factory=list)
    bad: dict[str, QuarantinedRow | None] = msgspec.field(default_factory=dict)

    def forget(self, row: EntityRow) -> None:
        """Takes back what ``row`` stood for."""
        self.former.extend((digest, row.id) for digest in digests_of(row))
        self.bad[row.id] = None

    def compile(self, row: EntityRow) -> None:
        """Takes in a row as it is now."""
        try:
            self.presented.update(compile_relay_key(row))
        except UNREADABLE as error:
            self.bad[row.id] = quarantine(row, error)


class Intake:
    """Rows on their way into the next snapshot, in portions, so that a large catalog never has to
    be there as rows all at once. What is the same as in the last snapshot is dropped, but for rows
    of the kinds ``anew``. ``plugins`` counts the changes of plugins that were known by then."""

    def __init__(
        self, stored: Mapping[str, bytes], plugins: int = 0, anew: frozenset[str] = frozenset()
    ) -> None:
        self.plugins = plugins
        self._anew = anew
        self._stored = stored
        self._by_kind: defaultdict[str, list[EntityRow]] = defaultdict(list)
        self._former: list[EntityRow] = []
        self.seen: set[str] = set()
        self.texts: dict[str, bytes] = {}
        self.keys = KeyChange()

    def add(self, rows: Iterable[EntityRow]) -> None:
        """Takes ``rows`` in. Relay keys depend on nothing but their rows, so that they can be
        compiled at once and there may be very many."""
        for row in rows:
            self.seen.add(row.id)
            text, former = _encode(row), self._stored.get(row.id)
            if text == former and row.kind not in self._anew:
                continue
            self.texts[row.id] = text
            if former is not None:
                self._forget(former)
            if row.kind == RELAY_KEY:
                self.keys.compile(row)
            else:
                self._by_kind[row.kind].append(row)

    def is_large(self) -> bool:
        """Whether what was taken in is worth keeping the garbage collector away."""
        return len(self.texts) >= MANY

    def forget_seen(self) -> None:
        """Lets go of ids one by one: a large set that ends at once holds up every other thread."""
        while self.seen:
            self.seen.pop()

    def patch(self, deleted: Iterable[str]) -> Patch:
        """All of it that is no relay key, and the end of the rows with the ids ``deleted``."""
        gone = frozenset(i for i in deleted if i in self._stored)
        for entity_id in gone:
            self._forget(self._stored[entity_id])
        return Patch(self._by_kind, gone, self._former)

    def _forget(self, text: bytes) -> None:
        row = _decode(text)
        if row.kind == RELAY_KEY:
            self.keys.forget(row)
        else:
            self._former.append(row)
