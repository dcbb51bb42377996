"""What vendors of plugins read, held to the code: nothing public is without a word about it."""

from __future__ import annotations

import inspect
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from relay_gateway import plugin
from relay_gateway.cli.scaffolding import KINDS
from relay_gateway.plugin import PluginConfig, hookspecs
from relay_gateway.registry import PluginKind, Registry
from relay_gateway.testing import conformance
from relay_gateway.testing import plugin as kit

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
from docs.conformance import checks, fixtures, own_fixtures, suites  # noqa: E402 - found by the line above

REFERENCE = ROOT / "docs" / "reference"
MODELS = ("Config", "HostConfig", "Ref")
SUITE_OF = {
    PluginKind.SECRET_BACKEND: "SecretBackendConformance",
    PluginKind.UPSTREAM_PROVIDER: "UpstreamProviderConformance",
    PluginKind.USAGE_SINK: "UsageSinkConformance",
    PluginKind.PAYLOAD_LOGGER: "PayloadLoggerConformance",
    PluginKind.STATE_STORE: "StateStoreConformance",
    PluginKind.GUARD: "GuardConformance",
    PluginKind.CATALOG_SEED: "CatalogSeedConformance",
}


def undocumented(thing: object, name: str) -> Iterator[str]:
    """``name``, and of a class the names of its methods, where nothing is said about them."""
    if not inspect.isclass(thing):
        if inspect.isfunction(thing) and not thing.__doc__:
            yield name
        return
    if not vars(thing).get("__doc__"):
        yield name
    for member, value in vars(thing).items():
        function = value.fget if isinstance(value, property) else value
        if member.startswith("_") or not inspect.isfunction(function):
            continue
        if not function.__doc__ and not any(hasattr(base, member) for base in thing.__mro__[1:]):
            yield f"{name}.{member}"


def own_classes() -> Iterator[tuple[str, Any]]:
    names = [
        tomllib.loads(path.read_text("utf-8"))["project"]["name"]
        for path in ROOT.glob("plugins/*/pyproject.toml")
    ]
    registry = Registry.discover(enabled=names)
    for kind in PluginKind:
        classes = getattr(registry, kind.plural, None)
        for name, item in (classes or {}).items():
            yield f"{kind} {name}", item


def bare_fields(model: type[BaseModel]) -> list[str]:
    fields = model.model_fields.items()
    return [name for name, field in fields if not field.description and name != "kind"]


def test_every_public_name_and_every_method_of_a_base_class_is_documented() -> None:
    named = [(getattr(plugin, name), name) for name in plugin.__all__]
    assert [each for thing, name in named for each in undocumented(thing, name)] == []
    page = (REFERENCE / "plugin-api.md").read_text("utf-8")
    assert [name for thing, name in named if inspect.isclass(thing) and name not in page] == []


def test_every_hook_is_documented() -> None:
    hooks = {name: hook for name, hook in vars(hookspecs).items() if name.startswith("relay_")}
    assert [name for name, hook in hooks.items() if not hook.__doc__] == []
    page = (REFERENCE / "plugin-api.md").read_text("utf-8")
    assert [name for name in hooks if f"### `{name}" not in page] == []


def test_every_field_of_the_configuration_and_the_references_of_a_plugin_is_documented() -> None:
    bare = {
        f"{name}: {attribute}": found
        for name, item in own_classes()
        for attribute in MODELS
        if (model := getattr(item, attribute, None)) and (found := bare_fields(model))
    }
    assert bare == {}


def test_a_field_without_a_description_is_found() -> None:
    class Bare(PluginConfig):
        told: int = 1

    assert bare_fields(Bare) == ["told"]


def test_every_kind_has_a_suite() -> None:
    names = {name for name, _ in suites()}
    assert set(SUITE_OF) == set(PluginKind)
    assert set(SUITE_OF.values()) <= names
    assert "CodecConformance" in names


@pytest.mark.parametrize(("name", "suite"), list(suites()), ids=[name for name, _ in suites()])
def test_every_check_and_every_fixture_of_a_suite_is_documented(name: str, suite: type) -> None:
    page = (REFERENCE / "conformance.md").read_text("utf-8")
    (section,) = [part for part in page.split("\n### ") if part.startswith(f"`{name}`")]
    assert vars(suite).get("__doc__"), "a suite says what to subclass and to provide"
    assert [one for one, made in own_fixtures(suite).items() if not made.__doc__] == []
    assert [one for one in own_fixtures(suite) if f"| `{one}` |" not in section] == []
    assert [claim for _, claim in checks(suite) if f"\n* {claim}\n" not in f"{section}\n"] == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_page_that_tells_how_to_write_one(kind: str) -> None:
    page = (ROOT / "docs" / "how-to" / f"write-a-{kind}.md").read_text("utf-8")
    assert f"plugins new {kind} " in page
    (wanted,) = [SUITE_OF[one] for one in PluginKind if str(one) == KINDS[kind].words]
    base = getattr(conformance, wanted)
    assert any(f"`{name}`" in page for name, suite in suites() if issubclass(suite, base))
    general = (ROOT / "docs" / "how-to" / "write-a-plugin.md").read_text("utf-8")
    assert f"(write-a-{kind}.md)" in general


def test_every_fixture_of_the_test_kit_is_documented() -> None:
    page = (REFERENCE / "conformance.md").read_text("utf-8")
    made: dict[str, Callable[..., object]] = dict(fixtures(vars(kit)))
    assert "relay_gateway_app" in made
    assert [name for name, function in made.items() if not function.__doc__] == []
    assert [name for name in made if f"| `{name}` |" not in page] == []
    assert [name for name in conformance.__all__ if f"### `{name}`" not in page] == []
