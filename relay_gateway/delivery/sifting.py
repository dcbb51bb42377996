"""Finding the records that a sink refuses, among those that it takes.

A record counts as refused only if the sink took another one in the same round: while it takes none
at all it is down, and nobody is to blame.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from relay_gateway.delivery.reading import Numbered

PARTS = 8
REFUSALS = 3
"""How many rounds a record may be refused in before it is set aside."""
T = TypeVar("T")

Attempt = Callable[[Sequence[Numbered[T]]], Awaitable[Exception | None]]


class Sieve(Generic[T]):
    """Hands over a batch in parts, again and again, until what is refused is alone."""

    def __init__(self, attempt: Attempt[T]) -> None:
        self._attempt = attempt
        self._refusals: Counter[int] = Counter()
        self._vain = 0
        """Rounds in a row in which nothing was taken; each looks at smaller parts."""

    async def sift(
        self, batch: Sequence[Numbered[T]]
    ) -> tuple[list[Numbered[T]], list[tuple[Numbered[T], Exception]]]:
        """One round: those to hand over later, and those to set aside with the reason."""
        parts = _parts(batch, max(1, -(-len(batch) // PARTS) >> self._vain))
        probes = parts[:: -(-len(parts) // PARTS)]
        failed = [part for part in probes if await self._attempt(part) is not None]
        if len(failed) == len(probes):
            self._vain = min(self._vain + 1, 16)
            return list(batch), []
        self._vain = 0
        taken = {part[0].number for part in probes} - {part[0].number for part in failed}
        later: list[Numbered[T]] = []
        aside: list[tuple[Numbered[T], Exception]] = []
        for part in parts:
            if part[0].number not in taken:
                await self._go_into(part, later, aside)
        return later, aside

    async def _go_into(
        self,
        part: Sequence[Numbered[T]],
        later: list[Numbered[T]],
        aside: list[tuple[Numbered[T], Exception]],
    ) -> None:
        error = await self._attempt(part)
        if error is None:
            return
        if isinstance(error, TimeoutError):
            later += part  # a sink that answers nothing would hold this up for each of them
        elif len(part) > 1:
            for half in _parts(part, -(-len(part) // 2)):
                await self._go_into(half, later, aside)
        elif self._is_refused(part[0]):
            aside.append((part[0], error))
        else:
            later += part

    def _is_refused(self, item: Numbered[T]) -> bool:
        self._refusals[item.number] += 1
        if self._refusals[item.number] < REFUSALS:
            return False
        del self._refusals[item.number]
        return True


def _parts(batch: Sequence[Numbered[T]], size: int) -> list[Sequence[Numbered[T]]]:
    return [batch[start : start + size] for start in range(0, len(batch), size)]
