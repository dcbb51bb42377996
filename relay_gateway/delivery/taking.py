"""Who takes records: a sink, or a consumer that keeps its own position."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, Protocol, TypeVar

import msgspec

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

CONSUMED_AT_ONCE = 2000
"""How many records a consumer is given at once: less than a line keeps in memory."""

Write = Callable[[Sequence[T]], Awaitable[None]]


class Portion(msgspec.Struct, frozen=True):
    """How much is handed over at once: so many ``records`` or ``bytes`` at most, and less when the
    first of them has waited for so many ``seconds``."""

    records: int = 500
    bytes: int = 4 * 1024 * 1024
    seconds: float = 0.05


class PositionedConsumer(Protocol[T_contra]):
    """Part of the gateway that must count every record exactly once.

    It stores the position in the same transaction as what it made of the records, and tells it
    when asked. Positions of one spool increase; every process writes a spool of its own, and what
    a killed one has left comes under the id of that one.
    """

    @property
    def name(self) -> str:
        """What it is called in metrics and in the log."""

    @property
    def batch_seconds(self) -> float:
        """How long the first record of a batch may wait for others."""

    async def positions(self, spool: str) -> int:
        """The last position of this spool that was stored; 0 when none was."""

    async def take(self, records: Sequence[T_contra], spool: str, position: int) -> None:
        """Stores what follows from ``records`` and that everything up to ``position`` is counted.
        Raises to be given the same records again."""


class Taker(Protocol[T_contra]):
    """What a line hands records to."""

    routed: bool
    """Whether it takes only the records that are routed to its name."""
    sifted: bool
    """Whether a batch may be handed over in parts, and a record that it refuses be set aside."""
    portion: Portion
    """How large it wants batches to be."""

    async def begin(self, spool: str) -> int:
        """Up to which position of a spool everything was taken, as far as it knows."""

    async def take(self, records: Sequence[T_contra], spool: str, position: int) -> None:
        """Takes a batch, or raises."""


class SinkTaker(Generic[T]):
    """A usage sink or a payload logger."""

    routed = True
    sifted = True

    def __init__(self, write: Write[T], portion: Portion | None = None) -> None:
        self._write = write
        self.portion = portion or Portion()

    async def begin(self, spool: str) -> int:
        return 0

    async def take(self, records: Sequence[T], spool: str, position: int) -> None:
        await self._write(records)


class ConsumerTaker(Generic[T]):
    """A consumer that keeps its own position: gets every record, each batch whole."""

    routed = False
    sifted = False

    def __init__(self, consumer: PositionedConsumer[T]) -> None:
        self._consumer = consumer
        self.portion = Portion(CONSUMED_AT_ONCE, seconds=consumer.batch_seconds)

    async def begin(self, spool: str) -> int:
        return await self._consumer.positions(spool)

    async def take(self, records: Sequence[T], spool: str, position: int) -> None:
        await self._consumer.take(records, spool, position)
