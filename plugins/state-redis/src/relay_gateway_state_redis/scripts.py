"""The two scripts that Redis runs, each known to it by its digest, and the calls of them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Self


@dataclass(frozen=True, slots=True)
class Script:
    """A text in Lua and the name under which a server that knows it runs it."""

    text: str
    digest: str

    @classmethod
    def of(cls, text: str) -> Self:
        """The script with its digest, which the protocol wants to be SHA-1."""
        return cls(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


@dataclass(frozen=True, slots=True)
class Call:
    """One script with its keys and arguments."""

    script: Script
    keys: Sequence[str]
    arguments: Sequence[str]

    def by_digest(self) -> tuple[str | int, ...]:
        """The command for a server that knows the script."""
        return ("EVALSHA", self.script.digest, len(self.keys), *self.keys, *self.arguments)

    def by_text(self) -> tuple[str | int, ...]:
        """The command for one that does not; it will from then on."""
        return ("EVAL", self.script.text, len(self.keys), *self.keys, *self.arguments)


def _script(name: str) -> Script:
    folder = files(__package__)
    parts = (folder.joinpath(part).read_text("utf-8") for part in ("counters.lua", name))
    return Script.of("\n".join(parts))


RESERVE = _script("reserve.lua")
SETTLE = _script("settle.lua")
