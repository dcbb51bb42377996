"""The course of one request: what it has tried, what came of it, and what it may try next.

Turning to another key because one was refused or has no room is not a retry. Anything else that is
asked after a failure is, and is bounded by the number of attempts, by the budget that all requests
share, and by the caller's deadline.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from relay_gateway.catalog.snapshot import Host, HostKey
from relay_gateway.errors import RequestRefusedError, UpstreamConnectError, UpstreamTimeoutError
from relay_gateway.pipeline.key_health import Healing
from relay_gateway.pipeline.ports import Exchange
from relay_gateway.pipeline.refusals import NoAnswer, Refusal, is_about_the_key
from relay_gateway.pipeline.retries import Backoff, RetryBudget, is_patient
from relay_gateway.pipeline.route import Candidate
from relay_gateway.plugin.providers import Verdict

Way = tuple[Candidate, HostKey | None]
"""A host that may be asked, and the key to ask it with."""
Result = Exchange | Refusal | NoAnswer | RequestRefusedError | None
"""What came of an attempt; ``None`` when the key could not even be drawn, an error of the caller's
when the request cannot be translated for this host."""


class Course:
    """Chooses the attempts of one request. ``ratio`` is what the budget allows of all requests,
    ``allows`` whether a host may be asked, ``deadline`` a time of the event loop."""

    def __init__(
        self,
        ways: Iterator[Way],
        healing: Healing,
        budget: RetryBudget,
        backoff: Backoff,
        allows: Callable[[Host], bool],
        *,
        max_attempts: int,
        ratio: float,
        deadline: float | None,
    ) -> None:
        self._ways = ways
        self.healing = healing
        self._budget = budget
        self._backoff = backoff
        self._allows = allows
        self._left = max_attempts
        self._ratio = ratio
        self._deadline = deadline
        self._failed: NoAnswer | Refusal | None = None
        self._failed_at: Host | None = None
        self._unreachable: Host | None = None
        self._unspeakable: Candidate | None = None
        self._again: list[Way] = []
        self._repetitions = 0
        self.last: Refusal | NoAnswer | RequestRefusedError | None = None
        """What the caller is told when nothing is left to try."""

    async def next(self) -> Way | None:
        """Where to try next; waits where the same host is asked once more."""
        if not self._left:
            return None
        way = await self._find()
        if way is None or self._failed is None:
            return way
        same = way[0].binding.host is self._failed_at
        if not same and isinstance(self._failed, NoAnswer) and not self._failed.error.sent:
            return way  # nothing was asked of anybody yet
        if same and not self._has_time():
            return None
        if not self._budget.take(self._ratio):
            return None
        if same:
            await self._backoff.pause(self._repetitions, _wish(self._failed))
            self._repetitions += 1
        return way

    def take(self, way: Way, result: Result) -> Exchange | Refusal | None:
        """Takes note of what came of an attempt; what there is to deliver, if anything."""
        if result is None:
            return None
        if isinstance(result, RequestRefusedError):
            self.last, self._unspeakable = self.last or result, way[0]
            return None
        if isinstance(result, NoAnswer):
            if not _is_slow(result):
                self._unreachable = way[0].binding.host  # another key would meet the same
        elif not isinstance(result, Refusal) or result.classification.verdict is Verdict.DELIVER:
            return result
        self.last = result
        self._failed = None
        if not is_about_the_key(result):
            self._left -= 1
            self._failed, self._failed_at = result, way[0].binding.host
            if _is_repeatable(result):
                self._again.append(way)
        return None

    async def _find(self) -> Way | None:
        for way in self._ways:
            if way[0].binding.host is not self._unreachable and way[0] is not self._unspeakable:
                return way
        return await self.healing.next() or self._repeated()

    def _repeated(self) -> Way | None:
        """One that failed in a way that may pass."""
        while self._again:
            way = self._again.pop(0)
            if self._allows(way[0].binding.host):
                return way
        return None

    def _has_time(self) -> bool:
        wish = _wish(self._failed)
        if not is_patient(wish):
            return False
        return self._deadline is None or time.monotonic() + (wish or 0.0) < self._deadline


def _is_slow(result: NoAnswer) -> bool:
    """Whether the host was there, and did not answer in time."""
    error = result.error
    return isinstance(error, UpstreamTimeoutError) and error.phase != "connect"


def _is_repeatable(result: NoAnswer | Refusal) -> bool:
    """Whether the same host may be asked the same again: it said that it failed, or was never
    asked."""
    if isinstance(result, Refusal):
        return is_patient(result.classification.retry_after)
    error = result.error
    if error.sent:
        return False
    return isinstance(error, UpstreamConnectError | UpstreamTimeoutError)


def _wish(failed: NoAnswer | Refusal | None) -> float | None:
    return failed.classification.retry_after if isinstance(failed, Refusal) else None
