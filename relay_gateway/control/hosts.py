"""Hosts and models: what they say about adapters and wire formats is held to what is installed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Union

from pydantic import Field, create_model

from relay_gateway.catalog.envelope import EntityRow
from relay_gateway.catalog.kinds import KINDS
from relay_gateway.catalog.specs import HostSpec
from relay_gateway.control.bodies import validate
from relay_gateway.control.naming import class_name, installed
from relay_gateway.control.rules import KindRules, Prepared, dump
from relay_gateway.errors import EntityNotFoundError, FieldProblem
from relay_gateway.plugin import UpstreamProvider
from relay_gateway.storage import CatalogStore

Providers = Mapping[str, UpstreamProvider[Any]]


class HostRules(KindRules):
    """A host's adapter is an installed provider, and ``adapterConfig`` is what that one accepts."""

    def __init__(self, providers: Providers) -> None:
        super().__init__(KINDS["host"])
        self._providers = providers
        if providers:
            self.documented_input = self.documented_output = _documented_host(providers)

    async def inspect(
        self, spec: Mapping[str, Any], previous: EntityRow | None
    ) -> list[FieldProblem]:
        adapter = spec.get("adapter")
        if not isinstance(adapter, str):
            return []
        provider = self._providers.get(adapter)
        if provider is None:
            message = f"no installed provider is called {adapter!r}; {installed(self._providers)}"
            return [FieldProblem("spec.adapter", "unknown_adapter", message)]
        problems = []
        config = spec.get("adapterConfig", {})
        if isinstance(config, dict):
            problems += validate(provider.HostConfig, config, "spec.adapterConfig")[1]
        formats = spec.get("wireFormats", [])
        return problems + _format_problems(
            "spec.wireFormats", formats, provider.wire_formats, f"adapter {adapter!r}"
        )

    async def prepare(self, entity_id: str, spec: HostSpec, previous: EntityRow | None) -> Prepared:
        return Prepared(self._complete(dump(spec)))

    def show(self, row: EntityRow) -> dict[str, Any]:
        return self._complete(super().show(row))

    def _complete(self, spec: dict[str, Any]) -> dict[str, Any]:
        """``spec`` with the defaults of its adapter's configuration."""
        provider = self._providers.get(spec.get("adapter", ""))
        if provider is None:
            return spec
        config, _ = validate(provider.HostConfig, spec.get("adapterConfig", {}))
        if config is None:
            return spec
        return {**spec, "adapterConfig": config.model_dump(mode="json", by_alias=True)}


class ModelRules(KindRules):
    """A binding's wire formats are some of its host's."""

    def __init__(self, store: CatalogStore, providers: Providers) -> None:
        super().__init__(KINDS["model"])
        self._store = store
        self._providers = providers

    async def inspect(
        self, spec: Mapping[str, Any], previous: EntityRow | None
    ) -> list[FieldProblem]:
        bindings = spec.get("bindings", [])
        problems: list[FieldProblem] = []
        for index, binding in enumerate(bindings if isinstance(bindings, list) else []):
            if isinstance(binding, dict) and binding.get("wireFormats"):
                field = f"spec.bindings[{index}].wireFormats"
                problems += await self._binding_problems(field, binding)
        return problems

    async def _binding_problems(self, field: str, binding: Mapping[str, Any]) -> list[FieldProblem]:
        host_id = binding.get("hostId")
        if not isinstance(host_id, str):
            return []
        try:
            host = await self._store.get("host", host_id)
        except EntityNotFoundError:
            return []  # The reference check says so, with the right field.
        provider = self._providers.get(host.spec.get("adapter", ""))
        spoken = host.spec.get("wireFormats") or (provider.wire_formats if provider else ())
        return _format_problems(field, binding["wireFormats"], spoken, f"host {host.slug!r}")


def _format_problems(
    field: str, formats: Any, spoken: Iterable[str], speaker: str
) -> list[FieldProblem]:
    known = sorted(spoken)
    return [
        FieldProblem(
            f"{field}[{index}]",
            "unknown_wire_format",
            f"{speaker} does not speak {name!r}; it speaks: {', '.join(known)}",
        )
        for index, name in enumerate(formats if isinstance(formats, list) else [])
        if isinstance(name, str) and name not in known
    ]


def _documented_host(providers: Providers) -> type[HostSpec]:
    names: Sequence[str] = sorted(providers)
    configs = tuple(
        create_model(f"{class_name(name)}AdapterConfig", __base__=providers[name].HostConfig)
        for name in names
    )
    # Types that are only known at run time; a checker cannot follow them.
    adapter: Any = Literal[tuple(names)]
    config: Any = Union[configs]  # noqa: UP007
    return create_model(
        "HostSpec",
        __base__=HostSpec,
        __doc__=HostSpec.__doc__,
        adapter=(adapter, ...),
        adapter_config=(config, Field(default_factory=dict)),
    )
