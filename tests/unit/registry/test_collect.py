"""Names that are claimed twice, and those that only look like it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from relay_gateway.plugin import Dialect, Endpoint, UpstreamProvider, WireFormat, hookimpl
from relay_gateway.registry import Registry


class AcmeDialect(Dialect):
    name = "acme"


class Talk(WireFormat):
    name = "acme.talk"
    dialect = AcmeDialect
    endpoints = (Endpoint("talk", "/v1/talk", "/talk"),)


def provider(name: str, *defines: type[WireFormat]) -> type[UpstreamProvider[Any]]:
    attributes = {"name": name, "wire_formats": ("acme.talk",), "defines": defines}
    return type("Provider", (UpstreamProvider,), attributes)


def registry_of(*providers: type[UpstreamProvider[Any]]) -> Registry:
    def plugin(given: type[UpstreamProvider[Any]]) -> object:
        return SimpleNamespace(relay_register_upstream_providers=hookimpl(lambda: [given]))

    return Registry.discover(entry_points=(), extra=[plugin(given) for given in providers])


def test_two_providers_may_bring_the_same_wire_format() -> None:
    registry = registry_of(provider("one", Talk), provider("two", Talk))
    assert not registry.conflicts
    assert set(registry.upstream_providers) == {"one", "two"}


def test_another_wire_format_of_the_same_name_is_a_conflict() -> None:
    other = type("Talk", (WireFormat,), {"name": "acme.talk"})
    (conflict,) = registry_of(provider("one", Talk), provider("two", other)).conflicts
    assert conflict.startswith("the wire format 'acme.talk' is claimed by")


def test_another_dialect_of_the_same_name_is_a_conflict() -> None:
    dialect = type("Dialect", (Dialect,), {"name": "acme"})
    other = type("Sing", (WireFormat,), {"name": "acme.sing", "dialect": dialect})
    (conflict,) = registry_of(provider("one", Talk), provider("two", other)).conflicts
    assert conflict.startswith("the dialect 'acme' is claimed by")


def test_one_path_with_two_methods_is_no_conflict() -> None:
    endpoint = Endpoint("listing", "/v1/talk", "/talk", method="GET")
    other = type("List", (WireFormat,), {"name": "acme.list", "endpoints": (endpoint,)})
    assert not registry_of(provider("one", Talk), provider("two", other)).conflicts


def test_claimants_of_one_name_are_both_out_and_say_why() -> None:
    registry = registry_of(provider("one"), provider("one"), provider("two"))
    assert set(registry.upstream_providers) == {"two"}
    errors = [info.error for info in registry.inventory() if info.name == "one"]
    assert errors == [registry.conflicts[0]] * 2
