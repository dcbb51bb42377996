"""Which part of a period is answered by which table."""

from __future__ import annotations

import msgspec

from relay_gateway_log_database.tables import DAY_US, HOUR_US


class Span(msgspec.Struct, frozen=True):
    """From ``start`` to before ``end``, ``None`` for no limit."""

    start: int | None = None
    end: int | None = None

    @property
    def empty(self) -> bool:
        """Whether nothing can be in it."""
        return self.start is not None and self.end is not None and self.start >= self.end

    def rounded(self, unit: int) -> Span:
        """The whole units that touch the span, counted in units."""
        return Span(
            None if self.start is None else self.start // unit,
            None if self.end is None else -(-self.end // unit),
        )

    def inside(self, unit: int) -> Span:
        """The whole units within the span, counted in units."""
        return Span(
            None if self.start is None else -(-self.start // unit),
            None if self.end is None else self.end // unit,
        )

    def times(self, factor: int) -> Span:
        """The same span in units that are ``factor`` times as small."""
        return Span(
            None if self.start is None else self.start * factor,
            None if self.end is None else self.end * factor,
        )

    def around(self, inner: Span) -> tuple[Span, ...]:
        """What is left and right of ``inner``, or all of the span where that is empty."""
        if inner.empty:
            return () if self.empty else (self,)
        parts = []
        if inner.start is not None:
            parts.append(Span(self.start, inner.start))
        if inner.end is not None:
            parts.append(Span(inner.end, self.end))
        return tuple(part for part in parts if not part.empty)


class Division(msgspec.Struct, frozen=True):
    """Parts of a period: days and hours are counted since 1970, rows are in microseconds."""

    daily: tuple[Span, ...]
    hourly: tuple[Span, ...]
    rows: tuple[Span, ...]


def divide(period: Span, *, by_day: bool) -> Division:
    """Whole days (unless each hour is wanted), whole hours around them, and what is left over."""
    hours = period.inside(HOUR_US)
    rows = period.around(hours.times(HOUR_US))
    if hours.empty:
        return Division((), (), rows)
    if not by_day:
        return Division((), (hours,), rows)
    days = hours.inside(DAY_US // HOUR_US)
    if days.empty:
        return Division((), (hours,), rows)
    return Division((days,), hours.around(days.times(DAY_US // HOUR_US)), rows)
