"""The architecture as tests: floors, the plugins' fence, and no vendor's name in the core."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PLUGINS = sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml"))
VENDORS = re.compile(
    r"openai|anthropic|gemini|mistral|deepseek|claude|\bgpt-|boto3|hvac", re.IGNORECASE
)
PUBLIC = ("relay_gateway.plugin", "relay_gateway.errors")
WITH_THE_CORE = {
    "test_state_redis_cancels.py",
    "test_state_redis_gateway.py",
    "test_state_redis_outages.py",
}
"""What the limiter of the core does with a store that is slow or away: tests of both together."""


def sources(directory: Path) -> list[Path]:
    found = sorted(directory.rglob("*.py"))
    assert found, directory
    return found


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def is_public(module: str) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in PUBLIC)


def project(directory: Path) -> dict[str, object]:
    table: dict[str, object] = tomllib.loads((directory / "pyproject.toml").read_text("utf-8"))[
        "project"
    ]
    return table


def test_each_floor_imports_only_the_floors_below_it() -> None:
    linter = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run(
        [linter, "--no-cache", "--no-logo"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert "0 broken" in done.stdout


def test_no_vendors_name_is_in_the_core() -> None:
    named = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in sources(ROOT / "relay_gateway")
        for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1)
        if VENDORS.search(line)
    ]
    assert named == []


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda path: path.name)
def test_a_plugin_imports_only_the_public_api(plugin: Path) -> None:
    fenced = [
        f"{path.relative_to(ROOT)}: {module}"
        for path in sources(plugin / "src")
        for module in imports(path)
        if module.partition(".")[0] == "relay_gateway" and not is_public(module)
    ]
    assert fenced == []


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda path: path.name)
def test_the_tests_of_a_plugin_import_only_the_public_api_and_the_test_kit(plugin: Path) -> None:
    kit = ("relay_gateway.testing", "relay_gateway.secret")
    fenced = {
        f"{path.relative_to(ROOT)}: {module}"
        for path in sources(plugin / "tests")
        if path.name not in WITH_THE_CORE
        for module in imports(path)
        if module.partition(".")[0] == "relay_gateway" and not is_public(module)
        if not any(f"{module}.".startswith(f"{one}.") for one in kit)
    }
    assert fenced == set()


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda path: path.name)
def test_a_plugin_is_a_whole_distribution(plugin: Path) -> None:
    table = project(plugin)
    assert table["name"] == f"relay-gateway-{plugin.name}"
    assert "relay-gateway>=0.1,<1" in list(table["dependencies"])  # type: ignore[call-overload]
    assert (plugin / "README.md").is_file()
    assert list((plugin / "src").glob("*/py.typed"))


def test_requirements_install_the_core_and_every_plugin() -> None:
    lines = (ROOT / "requirements.txt").read_text("utf-8").splitlines()
    listed = [line for line in lines if not line.startswith("#")]
    assert listed == [".", *(f"./plugins/{plugin.name}" for plugin in PLUGINS)]


def test_the_core_has_few_dependencies() -> None:
    dependencies = project(ROOT)["dependencies"]
    assert isinstance(dependencies, list)
    assert len(dependencies) <= 17


def test_constraints_pin_with_hashes_and_name_no_server() -> None:
    text = (ROOT / "constraints.txt").read_text("utf-8")
    pins = [line for line in text.splitlines() if line[:1].isalnum()]
    assert len(pins) > 40
    assert all("==" in pin and pin.endswith("\\") for pin in pins)
    assert not re.search(r"https?:|^-|--(index|extra-index|find-links)", text, re.MULTILINE)


def test_constraints_pin_whatever_a_project_of_this_repository_requires() -> None:
    text = (ROOT / "constraints.txt").read_text("utf-8")
    pinned = {line.partition("==")[0] for line in text.splitlines() if line[:1].isalnum()}
    for directory in (ROOT, *PLUGINS):
        dependencies = project(directory)["dependencies"]
        assert isinstance(dependencies, list)
        names = {re.split(r"[^A-Za-z0-9-]", line)[0].lower() for line in dependencies}
        assert {name for name in names if not name.startswith("relay-gateway")} <= pinned
