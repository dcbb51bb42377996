"""Recomputes what stored requests cost, says what changes, and corrects the records if wanted."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from relay_gateway.catalog.repricing import PriceSheets
from relay_gateway.plugin import LogQuery, UsageReader, UsageRecord

PAGE = 1000

Progress = Callable[[int], None]
"""Told how many records were looked at so far."""


class RepricedModel(msgspec.Struct, kw_only=True, rename="camel"):
    """What becomes of the requests of one model; costs are nano-units by currency.

    ``changed`` records have another cost now; those ``without_sheet`` stay as they are, because the
    catalog has no price sheet for them.
    """

    model: str | None
    records: int = 0
    changed: int = 0
    without_sheet: int = 0
    unpriced_before: int = 0
    unpriced_after: int = 0
    cost_before: dict[str, int] = {}
    cost_after: dict[str, int] = {}

    def add(self, before: UsageRecord, after: UsageRecord | None) -> None:
        """Counts one record; ``after`` is ``None`` where no sheet is known."""
        self.records += 1
        self.without_sheet += after is None
        after = after or before
        self.changed += after is not before
        self.unpriced_before += before.unpriced
        self.unpriced_after += after.unpriced
        _add_cost(self.cost_before, before)
        _add_cost(self.cost_after, after)

    def add_all(self, other: RepricedModel) -> None:
        """Counts what ``other`` has counted."""
        self.records += other.records
        self.changed += other.changed
        self.without_sheet += other.without_sheet
        self.unpriced_before += other.unpriced_before
        self.unpriced_after += other.unpriced_after
        for mine, added in (
            (self.cost_before, other.cost_before),
            (self.cost_after, other.cost_after),
        ):
            for currency, nanos in added.items():
                mine[currency] = mine.get(currency, 0) + nanos


class Repricing(msgspec.Struct, kw_only=True, rename="camel"):
    """What repricing finds: per model, those with most records first, and altogether.

    ``corrected`` is how many records were changed where they are stored.
    """

    models: list[RepricedModel]
    total: RepricedModel
    corrected: int = 0


async def reprice(
    reader: UsageReader, sheets: PriceSheets, query: LogQuery, *, apply: bool, progress: Progress
) -> Repricing:
    """Reprices every record that ``query`` finds; ``apply`` corrects them page by page.

    What was corrected stays so when a later page fails; the next run does the rest.
    """
    models: dict[str | None, RepricedModel] = {}
    corrected = seen = 0
    query = msgspec.structs.replace(query, limit=PAGE)
    while True:
        page = await reader.query(query)
        fresh = []
        for record in page.items:
            after = sheets.repriced(record)
            counted = models.setdefault(record.model_id, RepricedModel(model=record.model_id))
            counted.add(record, after)
            if after is not None and after is not record:
                fresh.append(after)
        if apply and fresh:
            corrected += await reader.correct(fresh)
        seen += len(page.items)
        if page.next_cursor is None:
            return _result(list(models.values()), corrected)
        progress(seen)
        query = msgspec.structs.replace(query, cursor=page.next_cursor)


def _result(models: list[RepricedModel], corrected: int) -> Repricing:
    total = RepricedModel(model=None)
    for one in models:
        total.add_all(one)
    models.sort(key=lambda one: -one.records)
    return Repricing(models=models, total=total, corrected=corrected)


def _add_cost(costs: dict[str, int], record: UsageRecord) -> None:
    if record.cost_nanos is not None and record.currency is not None:
        costs[record.currency] = costs.get(record.currency, 0) + record.cost_nanos
