"""Hosts and models: what they say about adapters and wire formats is held to what is installed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, Protocol, Union

from pydantic import ConfigDict, Field, create_model

from relay_gateway.catalog.destination import redirections
from relay_gateway.catalog.envelope import EntityRow
from relay_gateway.catalog.kinds import KINDS
from relay_gateway.catalog.specs import HostSpec
from relay_gateway.control.bodies import validate
from relay_gateway.control.naming import class_name, installed
from relay_gateway.control.rules import KindRules, Prepared, Statuses, dump
from relay_gateway.control.value_from import Backends, ValueFrom, generation_of
from relay_gateway.errors import EntityNotFoundError, FieldProblem, Referrer
from relay_gateway.plugin import UpstreamProvider

Providers = Mapping[str, UpstreamProvider[Any]]
PROXY_FIELD = "spec.proxyCredential"


class HostRules(KindRules):
    """A host's adapter is an installed provider, and ``adapterConfig`` is what that one accepts.

    ``proxyCredential`` is checked, sealed and shown by the secret backend of its kind.
    """

    has_status = True
    redirects = True

    def __init__(
        self, store: EntitySource, providers: Providers, backends: Backends, statuses: Statuses
    ) -> None:
        super().__init__(KINDS["host"])
        self._store = store
        self._statuses = statuses
        self._providers = providers
        self._references = references = ValueFrom(backends, self.kind.name)
        if providers:
            self.documented_input = _documented_host(providers, references.written_type())
            self.documented_output = _documented_host(providers, references.shown_type())

    async def statuses(self, rows: Sequence[EntityRow]) -> Mapping[str, Mapping[str, Any]]:
        return await self._statuses([row.id for row in rows])

    async def inspect(
        self, spec: Mapping[str, Any], previous: EntityRow | None
    ) -> list[FieldProblem]:
        return self._adapter_problems(spec) + self._proxy_problems(spec)

    def _adapter_problems(self, spec: Mapping[str, Any]) -> list[FieldProblem]:
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

    def _proxy_problems(self, spec: Mapping[str, Any]) -> list[FieldProblem]:
        credential = spec.get("proxyCredential")
        if not isinstance(credential, dict):
            return []
        if spec.get("proxyUrl") is None:
            message = "is for the egress proxy at proxyUrl, and there is none; set it, or leave out"
            return [FieldProblem(PROXY_FIELD, "proxy_url_required", message)]
        return self._references.read(credential, PROXY_FIELD)[1]

    async def prepare(self, entity_id: str, spec: HostSpec, previous: EntityRow | None) -> Prepared:
        complete = self._complete(dump(spec))
        if spec.proxy_credential is None:
            # The next value must not be taken for one that was sealed and removed before.
            generation = generation_of(previous)
            return Prepared(complete, {"generation": generation} if generation else {})
        kept = await self._references.keep(spec.proxy_credential, entity_id, previous, PROXY_FIELD)
        return Prepared({**complete, "proxyCredential": kept.public}, kept.sealed)

    async def redirected_keys(self, current: EntityRow, prepared: Prepared) -> Sequence[Referrer]:
        if not redirections(self.kind.name, current.spec, prepared.spec):
            return ()
        referrers = await self._store.referrers(self.kind.name, current.id)
        return [referrer for referrer in referrers if referrer.kind == "host key"]

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


class EntitySource(Protocol):
    """Where entities are looked up: the catalog, or one that is planned."""

    async def get(self, kind: str, ref: str) -> EntityRow:
        """The entity with the id ``ref``. Raises :class:`EntityNotFoundError`."""

    async def referrers(self, kind: str, ref: str) -> Sequence[Referrer]:
        """Who points at the entity with the id ``ref``."""


class ModelRules(KindRules):
    """A binding's wire formats are some of its host's."""

    def __init__(self, store: EntitySource, providers: Providers) -> None:
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


def _documented_host(providers: Providers, reference: Any) -> type[HostSpec]:
    names: Sequence[str] = sorted(providers)
    configs = tuple(
        create_model(f"{class_name(name)}AdapterConfig", __base__=providers[name].HostConfig)
        for name in names
    )
    # Types that are only known at run time; a checker cannot follow them.
    adapter: Any = Literal[tuple(names)]
    config: Any = Union[configs]  # noqa: UP007

    class Tied(HostSpec):
        model_config = ConfigDict(json_schema_extra=partial(_tie, names=names))

    return create_model(
        "HostSpec",
        __base__=Tied,
        __doc__=HostSpec.__doc__,
        adapter=(adapter, ...),
        adapter_config=(config, Field(default_factory=dict)),
        proxy_credential=(Union[reference, None], None),  # noqa: UP007  # made at run time
    )


def _tie(schema: dict[str, Any], _model: type, *, names: Sequence[str]) -> None:
    """Says in a host's schema that ``adapterConfig`` is the one of its adapter."""
    config = schema["properties"]["adapterConfig"]
    of_each = config.get("anyOf", [{"$ref": config["$ref"]}] if "$ref" in config else ())
    schema["anyOf"] = [
        {"properties": {"adapter": {"const": name}, "adapterConfig": reference}}
        for name, reference in zip(names, of_each, strict=True)
    ]
