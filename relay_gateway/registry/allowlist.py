"""``[plugins] enabled``: which installed distributions may be imported at all."""

from __future__ import annotations

import re
from collections.abc import Sequence

from relay_gateway.registry.inventory import Origin


class AllowList:
    """Decides before an import. ``None`` lets everything in, an empty list nothing.

    An entry is the name of a distribution or of an entry point, with an optional ``==version``;
    ``-``, ``_``, ``.`` and case make no difference in names, as on package indexes.
    """

    def __init__(self, enabled: Sequence[str] | None) -> None:
        self._entries = None if enabled is None else [_parse(entry) for entry in enabled]
        self._used: set[str] = set()

    def refusal(self, origin: Origin) -> str | None:
        """Why the plugin must not be imported, or ``None``."""
        if self._entries is None:
            return None
        names = {canonical(origin.distribution), canonical(origin.entry_point)}
        wanted = [version for name, version in self._entries if name in names]
        self._used |= names
        if not wanted:
            return "not imported: [plugins] enabled does not name it"
        if "" in wanted or origin.version in wanted:
            return None
        versions = " or ".join(wanted)
        return f"not imported: [plugins] enabled asks for version {versions}"

    def unmatched(self) -> list[str]:
        """Names of the list that no plugin seen by :meth:`refusal` has."""
        names = dict.fromkeys(name for name, _ in self._entries or ())
        return [name for name in names if name not in self._used]


def canonical(name: str) -> str:
    """A distribution's name in the one spelling that all spellings of it have."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _parse(entry: str) -> tuple[str, str]:
    name, _, version = entry.partition("==")
    return canonical(name.strip()), version.strip()
