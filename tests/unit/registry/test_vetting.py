"""What a plugin must look like, and what its author is told when it does not."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, Literal

import pytest

from relay_gateway.plugin import (
    AdapterConfig,
    CatalogSeed,
    Dialect,
    Endpoint,
    Guard,
    PluginConfig,
    SecretBackend,
    SecretRef,
    UpstreamProvider,
    UsageSink,
    WireFormat,
    hookimpl,
)
from relay_gateway.registry import PluginState, Registry


class Ref(SecretRef):
    kind: Literal["acme"] = "acme"


class OtherRef(SecretRef):
    kind: Literal["other"] = "other"


class Talk(WireFormat):
    name = "acme.talk"
    endpoints = (Endpoint("talk", "/v1/talk", "/talk"),)


class RequiredConfig(PluginConfig):
    required: bool = False


class FailingDialect(Dialect):
    name = "failing"

    def __init__(self) -> None:
        raise RuntimeError("no words")


def sink(**attributes: Any) -> type[UsageSink[Any]]:
    return type("Sink", (UsageSink,), {"name": "acme", **attributes})


def guard(**attributes: Any) -> type[Guard[Any]]:
    return type("AcmeGuard", (Guard,), {"name": "acme", **attributes})


def backend(**attributes: Any) -> type[SecretBackend[Any]]:
    return type("Backend", (SecretBackend,), {"name": "acme", "Ref": Ref, **attributes})


def provider(**attributes: Any) -> type[UpstreamProvider[Any]]:
    defaults = {"name": "acme", "wire_formats": ("acme.talk",), "defines": (Talk,)}
    return type("Provider", (UpstreamProvider,), defaults | attributes)


def wire_format(**attributes: Any) -> type[WireFormat]:
    return type("Talk", (Talk,), attributes)


def plugin(kind: str, answer: object) -> object:
    """A plugin object whose one hook gives this answer."""

    def hook() -> object:
        if isinstance(answer, Exception):
            raise answer
        return answer

    return SimpleNamespace(**{f"relay_register_{kind}": hookimpl(hook)})


def error_of(given: object) -> str:
    registry = Registry.discover(entry_points=(), extra=[given])
    (info,) = registry.inventory()
    assert info.state is PluginState.QUARANTINED
    assert info.traceback is not None
    return info.error or ""


@pytest.mark.parametrize(
    ("kind", "item"),
    [
        ("usage_sinks", sink()),
        ("secret_backends", backend()),
        ("upstream_providers", provider()),
        ("upstream_providers", provider(defines=())),
        ("catalog_seeds", CatalogSeed("acme", "made up", "2025-01-01")),
    ],
)
def test_what_looks_as_it_should_is_registered(kind: str, item: object) -> None:
    registry = Registry.discover(entry_points=(), extra=[plugin(kind, [item])])
    (info,) = registry.inventory()
    assert (info.name, info.state, info.error) == ("acme", PluginState.REGISTERED, None)


@pytest.mark.parametrize(
    ("kind", "answer", "message"),
    [
        ("usage_sinks", None, "returned None instead of a sequence"),
        ("usage_sinks", "acme", "returned 'acme' instead of a sequence"),
        ("usage_sinks", [], "implements no hook, or its hooks return nothing"),
        ("usage_sinks", RuntimeError("broken"), "RuntimeError: broken"),
        ("usage_sinks", [backend()], "which is no subclass of UsageSink"),
        ("usage_sinks", [object()], "which is no subclass of UsageSink"),
        ("usage_sinks", [sink(api_version=2)], "is written for version 2 of the plugin API"),
        ("usage_sinks", [sink(name="Acme")], "has the name 'Acme'; it must be lower-case"),
        ("usage_sinks", [sink(name=None)], "has the name None"),
        ("usage_sinks", [sink(Config=dict)], "has a Config that is no subclass of PluginConfig"),
        ("usage_sinks", [sink(Config=RequiredConfig)], "that key is the gateway's own"),
        ("guards", [guard(Config=PluginConfig)], "Config that is no subclass of GuardConfig"),
        ("secret_backends", [backend(Ref=None)], "has a Ref that is no subclass of SecretRef"),
        ("secret_backends", [backend(StoredRef=dict)], "has a StoredRef that is no subclass"),
        ("secret_backends", [backend(PublicRef=OtherRef)], "has a PublicRef whose kind is not"),
        ("upstream_providers", [provider(HostConfig=dict)], "subclass of AdapterConfig"),
        ("upstream_providers", [provider(wire_formats=())], "names no wire format"),
        ("upstream_providers", [provider(wire_formats="acme.talk")], "names no wire format"),
        (
            "upstream_providers",
            [provider(defines=(Dialect,))],
            "which is no subclass of WireFormat",
        ),
        (
            "upstream_providers",
            [provider(defines=(wire_format(name="talk"),))],
            "such a name has the form family.operation",
        ),
        (
            "upstream_providers",
            [provider(defines=(wire_format(endpoints=(Endpoint("x", "/x", "/x"),)),))],
            "which is no Endpoint below /v1",
        ),
        (
            "upstream_providers",
            [provider(defines=(wire_format(dialect=AdapterConfig),))],
            "with a dialect that is no subclass of Dialect",
        ),
        (
            "upstream_providers",
            [provider(defines=(wire_format(dialect=type("Mute", (Dialect,), {})),))],
            "in a dialect without a name of its own",
        ),
        (
            "upstream_providers",
            [provider(defines=(wire_format(dialect=FailingDialect),))],
            "RuntimeError: no words",
        ),
        ("catalog_seeds", [sink()], "which is no CatalogSeed"),
        ("catalog_seeds", [CatalogSeed("A b", "made up", "2025-01-01")], "must be lower-case"),
    ],
)
def test_what_does_not_is_quarantined_with_words_for_its_author(
    kind: str, answer: object, message: str
) -> None:
    assert message in error_of(plugin(kind, answer))


def test_an_async_hook_is_quarantined() -> None:
    async def hook() -> Sequence[object]:
        return ()

    given = SimpleNamespace(relay_register_usage_sinks=hookimpl(hook))
    assert error_of(given) == "relay_register_usage_sinks is async; hooks are plain functions"


def test_a_hook_that_wraps_those_of_others_is_quarantined() -> None:
    def hook() -> Any:
        return (yield)

    given = SimpleNamespace(relay_register_usage_sinks=hookimpl(hook, wrapper=True))
    assert "is a wrapper" in error_of(given)


def test_a_marked_function_that_is_no_hook_is_quarantined() -> None:
    def register_sinks() -> Sequence[object]:
        return [sink()]

    assert "unknown hook 'register_sinks'" in error_of(
        SimpleNamespace(register_sinks=hookimpl(register_sinks))
    )


def test_a_plugin_whose_second_hook_fails_is_quarantined_whole() -> None:
    given = plugin("usage_sinks", [sink()])
    broken = plugin("payload_loggers", RuntimeError("broken"))
    vars(given).update(vars(broken))
    registry = Registry.discover(entry_points=(), extra=[given, plugin("usage_sinks", [sink()])])
    assert [info.state for info in registry.inventory()] == ["registered", "quarantined"]
    assert set(registry.usage_sinks) == {"acme"}
    assert not registry.conflicts


def test_a_plugin_may_be_an_object_with_methods() -> None:
    class Methods:
        @hookimpl
        def relay_register_usage_sinks(self) -> Sequence[type[UsageSink[Any]]]:
            return [sink()]

    registry = Registry.discover(entry_points=(), extra=[Methods()])
    assert set(registry.usage_sinks) == {"acme"}
