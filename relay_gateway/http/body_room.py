"""How much memory the large bodies of all requests may hold together, and who goes on when it is
full.

Bodies are charged for what has arrived, not for what was announced: to take room from others, a
caller has to send it. Where only unfinished bodies are there, the eldest goes on, so that they
cannot wait for each other in a circle; a finished one gives its room back by itself.
"""

from __future__ import annotations

from typing import Final, Protocol

LARGE_BODY_BYTES: Final = 256 * 1024
"""Up to this size a body is nobody's concern."""


class Guest(Protocol):
    """A connection with a large body."""

    def go_on(self) -> None:
        """Its body may grow again."""


class BodyRoom:
    """Room for ``capacity`` bytes of large bodies.

    It is exceeded by no more than the rest of one body, and one read of each other.
    """

    __slots__ = ("_capacity", "_growing", "_held", "_sizes", "_waiting")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._held = 0
        self._sizes: dict[Guest, int] = {}
        self._growing: dict[Guest, None] = {}
        self._waiting: dict[Guest, None] = {}

    @property
    def held(self) -> int:
        """How many bytes are charged now."""
        return self._held

    def charge(self, guest: Guest, size: int) -> bool:
        """Notes that the unfinished body of ``guest`` holds ``size`` bytes; whether it may grow.

        If not, :meth:`Guest.go_on` is called once it may.
        """
        self._held += size - self._sizes.get(guest, 0)
        self._sizes[guest] = size
        self._growing[guest] = None
        if self._held <= self._capacity:
            self._admit()
        elif guest is not self._eldest():
            self._waiting[guest] = None
            return False
        return True

    def complete(self, guest: Guest, size: int) -> None:
        """The body of ``guest`` is whole and holds ``size`` bytes until it leaves."""
        self._held += size - self._sizes.get(guest, 0)
        self._sizes[guest] = size
        self._growing.pop(guest, None)
        self._admit()

    def leave(self, guest: Guest) -> None:
        """The body of ``guest`` is no longer held. May be called for one that never was."""
        self._held -= self._sizes.pop(guest, 0)
        self._growing.pop(guest, None)
        self._waiting.pop(guest, None)
        self._admit()

    def _eldest(self) -> Guest | None:
        """Who goes on although there is no room, if anybody must."""
        if not self._growing or len(self._growing) < len(self._sizes):
            return None
        return next(iter(self._growing))

    def _admit(self) -> None:
        """Lets the eldest go on, or where there is room, the one that has waited longest."""
        if not self._waiting:
            return
        guest = self._eldest()
        if guest is None or guest not in self._waiting:
            if self._held > self._capacity:
                return
            guest = next(iter(self._waiting))
        del self._waiting[guest]
        guest.go_on()
