"""Labels that cannot become many: ids turned into slugs, and tallies with a limit."""

from __future__ import annotations

from relay_gateway.catalog.live import LiveCatalog

OTHER = "other"
"""Stands for what is in no catalog, or came when there were too many: text of callers never becomes
a label."""
NONE = "none"
"""Stands for what a request did not get to: a model, a host."""
MAX_NAMES = 100
"""How many codes, meters or currencies are told apart: they are few, unless a plugin invents them.
"""


class Slugs:
    """The labels of models and hosts: their slugs in the catalog that is served when they are first
    seen."""

    def __init__(self, live: LiveCatalog) -> None:
        self._live = live

    def model(self, model_id: str | None) -> str:
        """The label of a model."""
        model = self._live.current.models_by_id.get(model_id or "")
        return model.slug if model is not None else OTHER if model_id else NONE

    def host(self, host_id: str | None) -> str:
        """The label of a host."""
        host = self._live.current.hosts.get(host_id or "")
        return host.slug if host is not None else OTHER if host_id else NONE


def add_named(tally: dict[str, int], name: str, amount: int) -> None:
    """Adds to the tally of ``name``, or to that of ``other`` when there are too many names."""
    if name not in tally and len(tally) >= MAX_NAMES:
        name = OTHER
    tally[name] = tally.get(name, 0) + amount
