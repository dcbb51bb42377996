"""``[plugins] enabled``: which installed distributions may be imported at all."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.metadata import Distribution

import msgspec

from relay_gateway.registry.digest import PREFIX, digest_of
from relay_gateway.registry.inventory import Origin


class _Entry(msgspec.Struct, frozen=True):
    """``version`` and ``digest`` are empty where any will do."""

    name: str
    version: str
    digest: str


class AllowList:
    """Decides before an import. ``None`` lets everything in, an empty list nothing.

    An entry is the name of a distribution or of an entry point, with an optional ``==version`` and,
    after a space, an optional ``sha256:…``, the digest of its files; ``-``, ``_``, ``.`` and case
    make no difference in names, as on package indexes.
    """

    def __init__(self, enabled: Sequence[str] | None) -> None:
        self._entries = None if enabled is None else [_parse(entry) for entry in enabled]
        self._used: set[str] = set()

    def refusal(self, origin: Origin, distribution: Distribution | None = None) -> str | None:
        """Why the plugin must not be imported, or ``None``."""
        if self._entries is None:
            return None
        names = {canonical(origin.distribution), canonical(origin.entry_point)}
        wanted = [entry for entry in self._entries if entry.name in names]
        self._used |= names
        if not wanted:
            return "not imported: [plugins] enabled does not name it"
        matching = [entry for entry in wanted if entry.version in ("", origin.version)]
        if not matching:
            versions = " or ".join(entry.version for entry in wanted)
            return f"not imported: [plugins] enabled asks for version {versions}"
        digests = [entry.digest for entry in matching]
        return None if "" in digests else _mismatch(digests, distribution)

    def unmatched(self) -> list[str]:
        """Names of the list that no plugin seen by :meth:`refusal` has."""
        names = dict.fromkeys(entry.name for entry in self._entries or ())
        return [name for name in names if name not in self._used]


def canonical(name: str) -> str:
    """A distribution's name in the one spelling that all spellings of it have."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _mismatch(wanted: Sequence[str], distribution: Distribution | None) -> str | None:
    found = None if distribution is None else digest_of(distribution)
    if found in wanted:
        return None
    asked = " or ".join(wanted)
    what = f"its files have the digest {found}" if found else "its files cannot be verified"
    return f"not imported: {what}, and [plugins] enabled asks for {asked}"


def _parse(entry: str) -> _Entry:
    named, space, digest = entry.strip().partition(" ")
    name, _, version = named.partition("==")
    digest = digest.strip()
    if space and not digest.startswith(PREFIX):
        # No digest is like this, so nothing is let in by a typing error.
        digest = f"{PREFIX} ({digest})"
    return _Entry(canonical(name), version.strip(), digest.lower())
