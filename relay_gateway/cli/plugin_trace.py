"""What ``plugins explain`` tells: the plugins that a request went through, from its record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from relay_gateway.plugin import Attempt, UsageRecord
from relay_gateway.registry import Registry


class Step(msgspec.Struct, frozen=True):
    """One plugin at work. ``milliseconds`` is ``None`` where the record does not tell it apart:
    such a time is part of the gateway's own."""

    kind: str
    plugin: str
    did: str
    milliseconds: float | None = None


class Trace(msgspec.Struct, frozen=True):
    """``specs`` are those of the catalog by id, as they are now; ``names`` slugs by id."""

    registry: Registry
    specs: Mapping[str, Mapping[str, Any]]
    names: Mapping[str, str]

    def steps(self, record: UsageRecord, sink: str) -> Iterator[Step]:
        """The steps in their order; ``sink`` is the one that the record was read from."""
        asked, spoken = record.wire_format, record.upstream_wire_format
        if asked:
            yield Step("wire format", self._definer(asked), f"took the request as {asked}")
        if spoken and spoken != asked:
            yield Step("codec", self._definer(asked), f"read {asked}")
            yield Step("codec", self._definer(spoken), f"wrote {spoken}, and read its answer")
        yield from self._guarded(record, "request")
        for number, attempt in enumerate(record.attempts, start=1):
            yield from self._attempt(number, attempt)
        if record.usage_source == "upstream":
            yield Step("meter", self._definer(spoken or asked), "read the usage of the answer")
        yield from self._guarded(record, "response", "stream")
        yield Step("usage sink", sink, "stored the record")

    def _guarded(self, record: UsageRecord, *phases: str) -> Iterator[Step]:
        for visit in record.guards:
            if visit.phase in phases:
                would = "on a dry run: " if visit.dry_run else ""
                did = f"{would}{visit.did} the {visit.phase}"
                yield Step("guard", visit.guard, did, visit.duration_ms)

    def _attempt(self, number: int, attempt: Attempt) -> Iterator[Step]:
        key = attempt.host_key_id
        reference = self.specs.get(key or "", {}).get("valueFrom")
        if key is not None and isinstance(reference, Mapping):
            backend = str(reference.get("kind", "-"))
            yield Step("secret backend", backend, f"keeps the host key {self._name(key)}")
        adapter = self.specs.get(attempt.host_id, {}).get("adapter", "-")
        came = attempt.error or (f"status {attempt.status}" if attempt.status else "no answer")
        did = f"attempt {number} at {self._name(attempt.host_id)}: {came}"
        yield Step("upstream provider", str(adapter), did, attempt.duration_ms)

    def _definer(self, wire_format: str) -> str:
        """The provider that brought the format along."""
        for name, provider in self.registry.upstream_providers.items():
            if any(one.name == wire_format for one in provider.defines):
                return name
        return "-"

    def _name(self, entity_id: str) -> str:
        return self.names.get(entity_id, entity_id)
