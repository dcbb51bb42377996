"""What the requests of one turn of the loop do together, while there are many.

Each wake-up of a busy gateway brings a request or an answer on many connections. Gone through one
after the other, each of them finds the processor's caches full of what the one before it did last;
gone through step by step, each step finds itself. And what is written down about all of them takes
one write. A request that comes alone is not kept waiting.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from relay_gateway.errors import FAULTS
from relay_gateway.pipeline.call import Call
from relay_gateway.pipeline.ports import Caller

FEW: Final = 4
"""While fewer requests are under way nothing is gathered: there is nothing to gain."""
BUSY_SECONDS: Final = 0.0005
"""What comes within this time after the one before it does not come alone."""
AT_ONCE: Final = 32
"""How many go through the steps together: their memory should fit into a cache, and the first is
kept waiting for the last."""

AnswerT = TypeVar("AnswerT")
GatheredT = TypeVar("GatheredT")
_log = logging.getLogger(__name__)


class Turn(Generic[AnswerT]):
    """Gathers requests that begin and answers that arrive, and hands them over when the loop has
    read from every connection that something came from."""

    def __init__(
        self,
        begin: Callable[[list[tuple[Call, Caller]]], None],
        answer: Callable[[list[AnswerT]], None],
    ) -> None:
        self._begin = begin
        self._answer = answer
        self._begun: list[tuple[Call, Caller]] = []
        self._answered: list[AnswerT] = []
        self._due = False
        self._last = 0.0

    @property
    def waiting(self) -> int:
        """How many requests wait to be begun."""
        return len(self._begun)

    def gathers(self, under_way: int) -> bool:
        """Whether what has just come is to be added, because it does not come alone: many requests
        are ``under_way``, and another one has just come, too."""
        if under_way < FEW:
            return False
        now = time.monotonic()
        busy = self._due or now - self._last < BUSY_SECONDS
        self._last = now
        return busy

    def add_request(self, call: Call, caller: Caller) -> None:
        """Has a request begun at the end of the turn."""
        self._begun.append((call, caller))
        self._schedule()

    def add_answer(self, answer: AnswerT) -> None:
        """Has an answer delivered at the end of the turn."""
        self._answered.append(answer)
        self._schedule()

    def end(self) -> None:
        """Hands over what was gathered, now."""
        self._due = False
        answered, self._answered = self._answered, []
        begun, self._begun = self._begun, []
        for start in range(0, len(answered), AT_ONCE):
            _hand_over(self._answer, answered[start : start + AT_ONCE])
        for start in range(0, len(begun), AT_ONCE):
            _hand_over(self._begin, begun[start : start + AT_ONCE])

    def _schedule(self) -> None:
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self.end)


def _hand_over(take: Callable[[list[GatheredT]], None], portion: list[GatheredT]) -> None:
    try:
        take(portion)
    except FAULTS:  # those who take see to failures of single requests; this is one of their own
        _log.exception("the requests of one turn of the loop failed")
