"""Tokens and money, by model and host."""

from __future__ import annotations

from collections.abc import Iterator

from relay_gateway.observe import families
from relay_gateway.observe.bounded import add_named
from relay_gateway.observe.series import Series, series_of
from relay_gateway.plugin.usage import UsageRecord

NANOS = 1_000_000_000


class Traffic:
    """Figures of one model at one host. Money is added up in whole nano-units."""

    __slots__ = ("_cost", "_tokens", "_unpriced")

    def __init__(self) -> None:
        self._tokens: dict[str, int] = {}
        self._cost: dict[str, int] = {}
        self._unpriced = 0

    def add(self, record: UsageRecord) -> None:
        """Adds the figures of one request, whose cost is known."""
        tokens = self._tokens
        for meter, amount in record.tokens.items():
            # What an upstream says it has counted is not always sane, and a counter only goes up.
            if amount > 0:
                try:
                    tokens[meter] += amount
                except KeyError:
                    add_named(tokens, meter, amount)
        if record.cost_nanos and record.currency is not None:
            add_named(self._cost, record.currency, record.cost_nanos)
        if record.unpriced:
            self._unpriced += 1

    def series(self, model: str, host: str) -> Iterator[Series]:
        """What was added so far."""
        for meter, amount in self._tokens.items():
            yield series_of(families.TOKENS, amount, model, host, meter)
        for currency, nanos in self._cost.items():
            yield series_of(families.COST, nanos / NANOS, model, host, currency)
        if self._unpriced:
            yield series_of(families.UNPRICED, self._unpriced, model, host)
