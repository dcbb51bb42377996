"""Plugins changed while the process runs: planned as a whole, then each changed by itself."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from relay_gateway.errors import PluginError
from relay_gateway.plugin import Dialect, Plugin, StateStore, WireFormat
from relay_gateway.registry.configure import Blueprint, Blueprints, Sections
from relay_gateway.registry.instances import Instances, Key
from relay_gateway.registry.inventory import Record
from relay_gateway.registry.kinds import ALWAYS_MADE, PluginKind


class Change(enum.StrEnum):
    """What became of one plugin."""

    ENABLED = "enabled"
    DISABLED = "disabled"
    RECONFIGURED = "reconfigured"
    KEPT = "kept"
    """Its new configuration does not open; it goes on with the old one."""


class PluginChange(msgspec.Struct, frozen=True):
    """One changed plugin; ``error`` says why it is not as the configuration wants it."""

    kind: PluginKind
    name: str
    change: Change
    error: str | None = None


class Planned(msgspec.Struct, frozen=True):
    """What is to be: everything installed, its classes, and what to make instances from.

    ``wire_formats`` and ``dialects`` are those that the planned providers define, by name.
    """

    records: Sequence[Record]
    classes: Mapping[Key, type[Plugin]]
    blueprints: Blueprints
    wire_formats: Mapping[str, type[WireFormat]]
    dialects: Mapping[str, type[Dialect]]


SectionsOf = Callable[[Mapping[str, type[StateStore]]], Sections]
"""The sections of plugins, some of which depend on the state stores that are installed."""
PlanAgain = Callable[[Sequence[str] | None, SectionsOf], Planned]
"""A plan for what is installed now, of which only what is enabled may be imported."""


async def make_effective(planned: Planned, instances: Instances) -> list[PluginChange]:
    """Brings ``instances`` to what is planned, one plugin after the other."""
    changes = []
    for key in dict.fromkeys([*instances.blueprints, *planned.blueprints]):
        change = await _change(key, planned.blueprints.get(key), instances)
        if change is not None:
            changes.append(PluginChange(*key, *change))
    instances.records[:] = _records(planned.records, instances)
    return changes


async def _change(
    key: Key, wanted: Blueprint | None, instances: Instances
) -> tuple[Change, str | None] | None:
    present = instances.blueprints.get(key)
    if wanted is None:
        del instances.blueprints[key]
        instances.take_out(key)
        return Change.DISABLED, None
    if present is None:
        return await _enable(key, wanted, instances)
    if _same(present, wanted):
        return None
    return await _reconfigure(key, wanted, instances)


async def _enable(key: Key, wanted: Blueprint, instances: Instances) -> tuple[Change, str | None]:
    instances.blueprints[key] = wanted
    if key[0] not in ALWAYS_MADE:
        return Change.ENABLED, None
    try:
        await instances.add(key, wanted).open()
    except PluginError as error:
        return Change.ENABLED, str(error)
    return Change.ENABLED, wanted.record.error


async def _reconfigure(
    key: Key, wanted: Blueprint, instances: Instances
) -> tuple[Change, str | None]:
    former = instances.get(key)
    if former is None:
        instances.blueprints[key] = wanted
        return Change.RECONFIGURED, None
    record = former.record.successor()
    record.adopt_secrets(wanted.record)
    try:
        instance = instances.make(key, wanted, record)
    except PluginError as error:
        return Change.KEPT, str(error)
    trouble = await instance.try_once()
    if trouble is not None:
        await instance.close()
        return Change.KEPT, trouble
    instances.blueprints[key] = replace(wanted, record=record)
    instances.put(key, instance)
    return Change.RECONFIGURED, None


def _same(present: Blueprint, wanted: Blueprint) -> bool:
    return (
        present.plugin is wanted.plugin
        and present.config == wanted.config
        and present.required == wanted.required
    )


def _records(planned: Sequence[Record], instances: Instances) -> list[Record]:
    """The lines of what is planned; of what is as it was, the line that there is already."""
    former = {(record.kind, record.name): record for record in instances.records}
    lines = []
    for record in planned:
        key = (record.kind, record.name)
        if record.kind is None or (record.kind, record.name) not in instances.blueprints:
            lines.append(record)
            continue
        instance = instances.get((record.kind, record.name))
        lines.append(instance.record if instance is not None else former.get(key, record))
    return lines
