"""What stored requests cost by the price sheets of the catalog as it is now."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import msgspec

from relay_gateway.catalog import specs
from relay_gateway.catalog.compile import UNREADABLE, compile_pricing
from relay_gateway.catalog.envelope import EntityRow
from relay_gateway.catalog.pricing import price
from relay_gateway.catalog.snapshot import Pricing
from relay_gateway.plugin.usage import UsageRecord


class PriceSheets:
    """The price sheets in ``rows``, without those that are disabled."""

    def __init__(self, rows: Iterable[EntityRow]) -> None:
        self._sheets: dict[str, Pricing] = {}
        self._bindings: dict[tuple[str, str], list[specs.ModelBinding]] = {}
        for row in rows:
            with suppress(*UNREADABLE):  # as if absent for requests, too
                self._take(row)

    def _take(self, row: EntityRow) -> None:
        if row.kind == "pricing":
            sheet = specs.PricingSpec.model_validate(row.spec)
            if sheet.enabled:
                self._sheets[row.id] = compile_pricing(row, sheet)
        elif row.kind == "model":
            for binding in specs.ModelSpec.model_validate(row.spec).bindings:
                self._bindings.setdefault((row.id, binding.host_id), []).append(binding)

    def sheet_of(self, record: UsageRecord) -> Pricing | None:
        """The sheet that the model has at the host that answered; else the one by which the record
        was priced. ``None`` for a request that no host was asked for, too."""
        for pricing_id in (self._bound(record), record.pricing_id):
            sheet = self._sheets.get(pricing_id or "")
            if sheet is not None:
                return sheet
        return None

    def repriced(self, record: UsageRecord) -> UsageRecord | None:
        """``record`` at the price of today: itself where that is the same, ``None`` where no sheet
        is known."""
        sheet = self.sheet_of(record)
        if sheet is None:
            return None
        cost = price(sheet, record.tokens, record.units, record.tier)
        if cost == (record.cost_nanos, record.currency, record.unpriced):
            return record
        return msgspec.structs.replace(
            record,
            cost_nanos=cost.nanos,
            currency=cost.currency,
            unpriced=cost.unpriced,
            pricing_id=sheet.id,
            pricing_version=sheet.version,
        )

    def _bound(self, record: UsageRecord) -> str | None:
        """Of several bindings at one host, the one whose sheet priced the record, then the one that
        is called as the answer said."""
        bindings = self._bindings.get((record.model_id or "", record.host_id or ""), ())
        for binding in bindings:
            if binding.pricing_id is not None and binding.pricing_id == record.pricing_id:
                return binding.pricing_id
        for binding in bindings:
            if binding.upstream_name is not None and binding.upstream_name == record.upstream_model:
                return binding.pricing_id
        return bindings[0].pricing_id if bindings else None
