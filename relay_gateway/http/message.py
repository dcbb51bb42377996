"""HTTP messages as both sides of the data path share them: header lists and their look-up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

Header = tuple[bytes, bytes]
"""Name and value as they were on the wire, the value without surrounding white space."""


class Headers:
    """Header fields in order, as received, with a look-up by lower-case name.

    ``fields`` keeps the spelling, order and duplicates of the wire; :meth:`get` gives the first
    value.
    """

    __slots__ = ("_first", "_repeated", "fields")

    def __init__(self, fields: Sequence[Header] = ()) -> None:
        self.fields: list[Header] = list(fields)
        self._first: dict[bytes, bytes] = {}
        self._repeated: set[bytes] | None = None
        first = self._first
        for name, value in fields:
            lower = name.lower()
            if lower in first:
                self._repeat(lower)
            else:
                first[lower] = value

    def add(self, name: bytes, value: bytes) -> bytes:
        """Appends one field and returns its ``name``, which comes in any case, in lower case."""
        self.fields.append((name, value))
        lower = name.lower()
        if lower in self._first:
            self._repeat(lower)
        else:
            self._first[lower] = value
        return lower

    def _repeat(self, lower: bytes) -> None:
        if self._repeated is None:
            self._repeated = set()
        self._repeated.add(lower)

    def get(self, name: bytes) -> bytes | None:
        """The first value of ``name`` (lower case), or ``None``."""
        return self._first.get(name)

    def all(self, name: bytes) -> list[bytes]:
        """Every value of ``name`` (lower case), in order."""
        return [value for field, value in self.fields if field.lower() == name]

    def is_repeated(self, name: bytes) -> bool:
        """Whether ``name`` (lower case) was sent more than once."""
        return self._repeated is not None and name in self._repeated

    def has_any(self, names: frozenset[bytes]) -> bool:
        """Whether any of ``names`` (lower case) is present."""
        return not names.isdisjoint(self._first)

    def selected(self, names: frozenset[bytes]) -> list[Header]:
        """The fields whose name (lower case) is in ``names``, in order, with lower-case names."""
        if self._repeated is None:
            return [pair for pair in self._first.items() if pair[0] in names]
        lowered = [(name.lower(), value) for name, value in self.fields]
        return [pair for pair in lowered if pair[0] in names]

    def replaced(self, name: bytes, value: bytes) -> Headers:
        """A copy with another value for ``name`` (lower case), which must be there once."""
        copy = Headers()
        copy.fields = [
            (field, value if field.lower() == name else old) for field, old in self.fields
        ]
        copy._first = {**self._first, name: value}
        copy._repeated = self._repeated
        return copy

    @property
    def length(self) -> int | None:
        """How long the body is that they announce, in bytes; ``None`` where they do not say."""
        value = self.get(b"content-length")
        return int(value) if value is not None and value.isdigit() else None

    def names(self) -> frozenset[bytes]:
        """The lower-case names that are present."""
        return frozenset(self._first)

    def __contains__(self, name: bytes) -> bool:
        return name in self._first

    def __len__(self) -> int:
        return len(self.fields)


NO_HEADERS: Final = Headers()
"""Those of an answer that has not begun."""


class HeadMemory:
    """What a handler worked out from a head, kept for as long as its connection repeats it."""

    __slots__ = ("known",)

    def __init__(self) -> None:
        self.known: Any = None
