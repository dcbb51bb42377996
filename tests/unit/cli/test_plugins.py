"""Writing, checking and explaining plugins: what is refused, and in which words."""

from __future__ import annotations

import textwrap
from importlib.metadata import Distribution
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from pydantic import Field

from relay_gateway.cli import plugin_check
from relay_gateway.cli.installed_plugins import InstalledPlugin
from relay_gateway.cli.plugin_check import Finding
from relay_gateway.cli.plugin_trace import Step, Trace
from relay_gateway.cli.scaffolding import KINDS, core_range, scaffold
from relay_gateway.plugin import Attempt, PluginConfig
from relay_gateway.registry import PluginInfo, PluginState, Registry
from relay_gateway.testing.records import usage_record

if TYPE_CHECKING:
    from .conftest import CommandLine

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("kind", KINDS)
def test_a_scaffold_is_a_whole_distribution(kind: str, tmp_path: Path, relay: CommandLine) -> None:
    done = relay("plugins", "new", kind, "acme-cloud", "--into", str(tmp_path))
    assert done.code == 0, done.err
    assert "relay-gateway plugins check acme-cloud" in done.out
    (root,) = tmp_path.iterdir()
    files = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    package = f"src/{root.name.replace('-', '_')}"
    assert {"pyproject.toml", "README.md", ".gitignore", ".github/workflows/test.yml"} < files
    assert {f"{package}/{name}" for name in ("__init__.py", "conformance.py", "py.typed")} < files
    assert "tests/test_conformance.py" in files
    for path in root.rglob("*.py"):
        compile(path.read_text("utf-8"), str(path), "exec")
    assert "$" not in (root / "pyproject.toml").read_text("utf-8")


def test_nothing_is_overwritten(tmp_path: Path, relay: CommandLine) -> None:
    root = scaffold("provider", "acme", tmp_path)
    (root / "README.md").write_text("mine", "utf-8")
    done = relay("plugins", "new", "provider", "acme", "--into", str(tmp_path))
    assert done.code == 2
    assert f"{root} exists and is not overwritten" in done.err
    assert (root / "README.md").read_text("utf-8") == "mine"


@pytest.mark.parametrize("name", ["", "Acme", "1acme", "acme_cloud", "acme-", "../acme", "a b"])
def test_a_name_that_no_plugin_can_have_is_refused(
    name: str, tmp_path: Path, relay: CommandLine
) -> None:
    done = relay("plugins", "new", "provider", name, "--into", str(tmp_path))
    assert done.code == 2
    assert "cannot be the name of a plugin" in done.err
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_kind_is_refused_with_those_there_are(relay: CommandLine) -> None:
    done = relay("plugins", "new", "sink", "acme")
    assert done.code == 2
    assert "there are: secret-backend, provider, usage-sink, payload-logger" in done.err


@pytest.mark.parametrize(
    ("version", "expected"), [("0.1.0", ">=0.1,<1"), ("1.4.2", ">=1.4,<2"), ("2.0.0a1", ">=2.0,<3")]
)
def test_a_scaffold_asks_for_this_gateway_up_to_the_next_major_version(
    version: str, expected: str
) -> None:
    assert core_range(version) == expected


class Installed(Distribution):
    """A distribution that requires ``requirement``."""

    def __init__(self, requirement: str) -> None:
        self._text = f"Metadata-Version: 2.1\nName: x\nVersion: 1\nRequires-Dist: {requirement}\n"

    def read_text(self, filename: str) -> str | None:
        return self._text if filename == "METADATA" else None

    def locate_file(self, path: Any) -> Any:
        return Path(path)


@pytest.mark.parametrize(
    ("requirement", "problem"),
    [
        ("relay-gateway>=0.1,<1", ""),
        ("relay-gateway==0.1.*", ""),
        ("pydantic>=2", "add relay-gateway to the dependencies"),
        ("relay-gateway>=7,<8", "it asks for relay-gateway<8,>=7, this is "),
        ("relay-gateway>=0.1", "has no upper bound"),
    ],
)
def test_the_range_of_gateways_is_judged(requirement: str, problem: str) -> None:
    found = plugin_check._core(Installed(requirement))
    assert problem in found
    assert bool(found) == bool(problem)


def test_imports_of_what_is_not_public_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "relay_gateway_nosy"
    package.mkdir()
    text = """
        import relay_gateway.storage
        from relay_gateway.errors import RelayError
        from relay_gateway.plugin.canonical import Text
        from relay_gateway.pluginish import x
    """
    (package / "__init__.py").write_text(textwrap.dedent(text), "utf-8")
    (package / "suite.py").write_text("import relay_gateway.testing", "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    named = SimpleNamespace(module="relay_gateway_nosy.suite")
    points = SimpleNamespace(select=lambda group: [named])
    found = plugin_check._foreign_imports(
        cast("Any", SimpleNamespace(entry_points=points)),
        cast("Any", SimpleNamespace(module="relay_gateway_nosy")),
    )
    assert list(found) == [
        "relay_gateway.storage (in relay_gateway_nosy)",
        "relay_gateway.pluginish (in relay_gateway_nosy)",
    ]


class _Config(PluginConfig):
    told: int = Field(default=1, description="Told.")
    bare: int = 1


def test_a_plugin_that_shows_nothing_is_not_green() -> None:
    info = PluginInfo("acme", "usage sink", "acme", "1", PluginState.REGISTERED)
    plugin = InstalledPlugin(info, SimpleNamespace(Config=_Config), None, None, None)
    broken = {
        one.claim: one.reason for one in plugin_check.check(plugin) if one.outcome != "passed"
    }
    assert broken.keys() == {
        "its metadata can be read",
        "every field of Config says what it means",
        "it names its conformance suite",
    }
    assert "give bare a description" in broken["every field of Config says what it means"]
    assert "--suite" in broken["it names its conformance suite"]


def test_names_of_tests_become_claims() -> None:
    line = {"test": "a.py::TestAcme::test_it_works_well[one]", "outcome": "passed", "reason": "x"}
    assert plugin_check._finding(line) == Finding("Acme", "it works well (one)", "passed")
    line = {"test": "a.py::test_it", "outcome": "failed", "reason": "no"}
    assert plugin_check._finding(line) == Finding("conformance", "it", "failed", "no")


def test_an_unknown_plugin_is_refused_with_those_there_are(relay: CommandLine) -> None:
    for command in ("check", "bench"):
        done = relay("plugins", command, "nobody")
        assert done.code == 2
        assert "no plugin 'nobody' is installed; there are: " in done.err


def test_a_backend_is_not_measured_without_something_to_resolve(relay: CommandLine) -> None:
    done = relay("plugins", "bench", "env")
    assert done.code == 2
    assert "--reference" in done.err
    done = relay("plugins", "bench", "relay-gateway-log-s3")
    assert done.code == 2
    assert "bucket: Field required" in done.err


def test_a_request_that_went_to_two_hosts_is_told_in_order() -> None:
    specs: dict[str, dict[str, Any]] = {
        "h1": {"adapter": "one"},
        "h2": {"adapter": "two"},
        "k2": {"valueFrom": {"kind": "env", "env": "KEY"}},
    }
    record = usage_record(
        wire_format="acme.talk",
        upstream_wire_format=None,
        attempts=(
            Attempt(host_id="h1", status=503, error="overloaded", duration_ms=4.0),
            Attempt(host_id="h2", host_key_id="k2", duration_ms=2.5),
        ),
    )
    trace = Trace(Registry.discover(entry_points=[]), specs, {"h1": "east", "k2": "key"})
    assert list(trace.steps(record, "memory")) == [
        Step("wire format", "-", "took the request as acme.talk"),
        Step("upstream provider", "one", "attempt 1 at east: overloaded", 4.0),
        Step("secret backend", "env", "keeps the host key key"),
        Step("upstream provider", "two", "attempt 2 at h2: no answer", 2.5),
        Step("meter", "-", "read the usage of the answer"),
        Step("usage sink", "memory", "stored the record"),
    ]


def test_a_plugin_without_a_suite_is_checked_with_tests_from_elsewhere(relay: CommandLine) -> None:
    done = relay("plugins", "check", "relay-gateway-secret-env")
    assert (done.code, "not tested: it names its conformance suite" in done.out) == (1, True)
    suite = ROOT / "plugins" / "secret-env" / "tests" / "test_secret_env_conformance.py"
    done = relay("plugins", "check", "relay-gateway-secret-env", "--suite", str(suite), "--json")
    assert done.code == 0, done.out
    (report,) = done.json
    assert (report["plugin"], report["passed"]) == ("env", True)
    subjects = [one["subject"] for one in report["findings"]]
    assert subjects.count("EnvironmentSecrets") > 10
