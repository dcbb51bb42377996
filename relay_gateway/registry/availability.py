"""Why a plugin that something needs cannot be had, in one sentence that says what to do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from relay_gateway.registry.allowlist import canonical
from relay_gateway.registry.inventory import PluginState, Record
from relay_gateway.registry.kinds import PluginKind


def explain_absence(kind: PluginKind, name: str, records: Sequence[Record]) -> str:
    """The reason why no plugin of this kind and name is usable, from the whole inventory."""
    for record in records:
        if (record.kind, record.name) == (kind, name):
            return f"{record} is {record.state}: {record.error}"
    installed = ", ".join(sorted({record.name for record in records if record.kind is kind}))
    sentence = f"no {kind} named {name!r} is installed; installed: {installed or 'none'}"
    return "; ".join([sentence, *_suspects(name, records)])


def _suspects(name: str, records: Iterable[Record]) -> Iterable[str]:
    """Plugins of unknown kind that may be the one: all quarantined ones, and such as are merely not
    enabled when their names look like it."""
    for record in records:
        if record.kind is not None:
            continue
        names = f"{record.name} {record.origin.distribution}"
        if record.state is PluginState.QUARANTINED or canonical(name) in canonical(names):
            yield f"{record} is {record.state}: {record.error}"
