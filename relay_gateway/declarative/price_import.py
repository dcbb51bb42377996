"""From a price list to what the catalog should have: providers, pricings and models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from relay_gateway.catalog.envelope import EntityRow
from relay_gateway.catalog.kinds import KINDS, find_references
from relay_gateway.control.bodies import validate
from relay_gateway.control.rules import dump
from relay_gateway.declarative.price_lists import ListedModel
from relay_gateway.ids import new_id, slugify

CURRENCY = "USD"
"""What both known lists are in."""
_LONGEST_SLUG = 63
_LONGEST_NAME = 200


class ImportRequest(msgspec.Struct, frozen=True):
    """What to take of a list. Patterns are shell patterns over what the list calls things; without
    any, everything matches. ``host`` is the slug of the host at which models are bound, instead of
    the one with the provider's slug. ``existing`` takes only models that the catalog has;
    ``force`` changes what was written by the API or files, too."""

    providers: Sequence[str] = ()
    models: Sequence[str] = ()
    host: str | None = None
    existing: bool = False
    force: bool = False

    def takes(self, model: ListedModel) -> bool:
        """Whether the patterns select ``model``."""
        return _matches(self.providers, model.provider) and _matches(self.models, model.name)


class PriceImport:
    """An import against the catalog in ``rows``: ``desired`` is what is to be there afterwards,
    ``notes`` what was left as it is."""

    def __init__(self, rows: Sequence[EntityRow], request: ImportRequest) -> None:
        self._request = request
        self._slugs = {(row.kind, row.slug): row for row in rows}
        self._by_id = {row.id: row for row in rows}
        self._names = dict(_model_names(rows))
        self._uses = Counter(
            reference.id
            for row in rows
            for reference in find_references(KINDS[row.kind], row.spec)
            if reference.target == "pricing"
        )
        self._desired: dict[str, EntityRow] = {}
        self.notes: list[str] = []

    @property
    def desired(self) -> list[EntityRow]:
        """Everything that was taken, in order."""
        return list(self._desired.values())

    def take(self, listed: ListedModel) -> None:
        """Takes one model of the list, if it is wanted."""
        if not self._request.takes(listed):
            return
        provider_slug = slugify(listed.provider)
        provider = self._slugs.get(("provider", provider_slug))
        current = self._model_of(listed, provider)
        if current is None and self._request.existing:
            return
        if current is not None and self._is_left(current):
            return
        if provider is None:
            provider = self._add("provider", provider_slug, listed.provider_name, {})
        self.notes += [
            f"{listed.listed_as}: its prices for {tier} are no one multiple of the ordinary ones "
            "and are left out"
            for tier in listed.uneven
        ]
        host = self._slugs.get(("host", self._request.host or provider_slug))
        pricing = self._pricing(listed, current, host)
        self._model(listed, current, provider, host, pricing)

    def _model_of(self, listed: ListedModel, provider: EntityRow | None) -> EntityRow | None:
        if provider is None:
            return None
        for name in (listed.name, f"{provider.slug}/{listed.name}"):
            row = self._names.get(name)
            if row is not None and row.spec.get("providerId") == provider.id:
                return row
        return None

    def _is_left(self, row: EntityRow) -> bool:
        if row.managed_by == "catalog" or self._request.force:
            return False
        self.notes.append(
            f"{row.kind} {row.slug} was written by the {row.managed_by} and is left as it is; "
            "--force changes it"
        )
        return True

    def _pricing(
        self, listed: ListedModel, current: EntityRow | None, host: EntityRow | None
    ) -> EntityRow | None:
        """The price sheet of a model: the one it has at the host if no other model has it, too."""
        if not listed.rates:
            return None
        binding = _binding(current.spec, host) if current and host else None
        own = self._by_id.get((binding or {}).get("pricingId") or "")
        if own is not None and self._uses[own.id] > 1:
            own = None
        name = listed.listed_as[:_LONGEST_NAME]
        if own is None:
            slug, own = self._place("pricing", f"{listed.provider}-{listed.name}", name)
            if own is None:
                spec = _priced({}, listed)
                return self._add("pricing", slug, name, spec)
        if self._is_left(own):
            return own
        if own.spec.get("currency", CURRENCY) != CURRENCY:
            self.notes.append(f"pricing {own.slug} is not in {CURRENCY} and is left as it is")
            return own
        return self._put(own, _priced(own.spec, listed))

    def _model(
        self,
        listed: ListedModel,
        current: EntityRow | None,
        provider: EntityRow,
        host: EntityRow | None,
        pricing: EntityRow | None,
    ) -> None:
        spec = _described(current.spec if current else {"providerId": provider.id}, listed)
        binds = self._request.host is not None or not spec.get("bindings")
        spec["bindings"] = _bound(spec, listed, host, pricing, binds=binds)
        if current is not None:
            self._put(current, spec)
            return
        name = listed.name
        if name in self._names:
            name = f"{provider.slug}/{listed.name}"
        if name in self._names:
            taken = self._names[name].slug
            self.notes.append(f"{listed.listed_as}: the model {taken} has its name; it is left out")
            return
        slug, _ = self._place("model", name, "")
        row = self._add("model", slug, listed.display_name[:_LONGEST_NAME], {**spec, "name": name})
        if row is not None:
            self._names[name] = row

    def _place(self, kind: str, text: str, display_name: str) -> tuple[str, EntityRow | None]:
        """The slug that ``text`` suggests, and the entity with this name that has it; numbered
        where others have it."""
        base, number = slugify(text), 1
        while True:
            suffix = f"-{number}" if number > 1 else ""
            slug = base[: _LONGEST_SLUG - len(suffix)].rstrip("-") + suffix
            row = self._slugs.get((kind, slug))
            if row is None or (display_name and row.display_name == display_name):
                return slug, row
            number += 1

    def _add(self, kind: str, slug: str, name: str, spec: Mapping[str, Any]) -> EntityRow:
        row = EntityRow(
            id=new_id(),
            kind=kind,
            slug=slug,
            display_name=name[:_LONGEST_NAME] or slug,
            managed_by="catalog",
            spec=dict(spec),
        )
        self._slugs[kind, slug] = row
        return self._keep(row)

    def _put(self, row: EntityRow, spec: Mapping[str, Any]) -> EntityRow:
        return self._keep(msgspec.structs.replace(row, spec=dict(spec)))

    def _keep(self, row: EntityRow) -> EntityRow:
        """Notes what is wanted, with all defaults, unless no such entity can be."""
        spec, problems = validate(KINDS[row.kind].spec, row.spec)
        if spec is None:
            why = "; ".join(f"{problem.field}: {problem.message}" for problem in problems)
            self.notes.append(f"{row.kind} {row.slug} is left out: {why}")
            return row
        kept = msgspec.structs.replace(row, spec=dump(spec))
        self._desired[row.id] = kept
        return kept


def _matches(patterns: Sequence[str], text: str) -> bool:
    return not patterns or any(fnmatchcase(text, pattern) for pattern in patterns)


def _model_names(rows: Sequence[EntityRow]) -> Iterator[tuple[str, EntityRow]]:
    """Names and exact aliases; a name wins over an alias."""
    models = [row for row in rows if row.kind == "model"]
    for row in models:
        for alias in row.spec.get("aliases") or ():
            yield alias, row
    for row in models:
        yield row.spec.get("name") or row.slug, row


def _binding(spec: Mapping[str, Any], host: EntityRow) -> Mapping[str, Any] | None:
    for binding in spec.get("bindings") or ():
        if binding.get("hostId") == host.id:
            found: Mapping[str, Any] = binding
            return found
    return None


def _bound(
    spec: Mapping[str, Any],
    listed: ListedModel,
    host: EntityRow | None,
    pricing: EntityRow | None,
    *,
    binds: bool,
) -> list[dict[str, Any]]:
    """The bindings, that at ``host`` with its price sheet; made if it ``binds``."""
    bindings = [dict(binding) for binding in spec.get("bindings") or ()]
    if host is None:
        return bindings
    own = next((binding for binding in bindings if binding.get("hostId") == host.id), None)
    if own is None and not binds:
        return bindings
    if own is None:
        own = {"hostId": host.id, "upstreamName": listed.name}
        bindings.append(own)
    if pricing is not None:
        own["pricingId"] = pricing.id
    return bindings


def _described(spec: Mapping[str, Any], listed: ListedModel) -> dict[str, Any]:
    """``spec`` with the windows of the list, and with what nobody has said yet."""
    found = dict(spec)
    if listed.context_window is not None:
        found["contextWindow"] = listed.context_window
    if listed.max_output_tokens is not None:
        found["maxOutputTokens"] = listed.max_output_tokens
    if not found.get("capabilities"):
        found["capabilities"] = list(listed.capabilities)
    modalities = found.get("modalities") or {}
    if not (modalities.get("input") or modalities.get("output")):
        found["modalities"] = {"input": list(listed.input), "output": list(listed.output)}
    if listed.sunset is not None:
        found["deprecated"] = {**(found.get("deprecated") or {}), "sunset": listed.sunset}
    return found


def _priced(spec: Mapping[str, Any], model: ListedModel) -> dict[str, Any]:
    """``spec`` with the rates of the list for every meter that the list has, and its multipliers
    for every tier."""
    rates = model.rates
    meters = {rate.meter for rate in rates}
    kept = [rate for rate in spec.get("rates") or () if rate.get("meter") not in meters]
    listed = [
        {
            "meter": rate.meter,
            "unit": rate.unit,
            "amount": format(rate.amount, "f"),
            "aboveTokens": rate.above_tokens,
        }
        for rate in rates
    ]
    factors = {tier: format(factor, "f") for tier, factor in model.multipliers.items()}
    multipliers = {**(spec.get("multipliers") or {}), **factors}
    return {
        **spec,
        "currency": CURRENCY,
        "rates": [*listed, *kept],
        "multipliers": multipliers,
    }
