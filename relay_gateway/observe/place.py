"""The place of a worker among the metrics: one process after another fills it, none is forgotten.

Prometheus takes a counter that falls for one that began anew, and would count too much. So what a
process had counted when it was last heard of stays in the sum when another takes its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from relay_gateway.observe import families
from relay_gateway.observe.series import Report, Series, lasting, named, series_of, summed


class Place:
    """What is known of the processes that have filled one place. ``name`` is its label."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._ended: Sequence[Series] = ()
        self._last = Report("", ())
        self._unanswered = 0

    def series(self, report: Report | None) -> Iterator[Series]:
        """The series of this place, given the answer of who is there; ``None``: there was none."""
        if report is None:
            self._unanswered += 1
        elif report.born != self._last.born:
            self._ended = summed([*self._ended, *lasting(self._last.series)])
        self._last = report or self._last
        present = self._last.series if report is not None else lasting(self._last.series)
        yield from self._ended
        yield from named(present, self.name)
        yield series_of(families.PROCESS_UP, int(report is not None), self.name)
        yield series_of(families.PROCESS_UNANSWERED, self._unanswered, self.name)
