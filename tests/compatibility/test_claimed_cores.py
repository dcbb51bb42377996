"""Each plugin works with the lowest core that it claims: names first, then its own tests."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
from docs.public_api import RECORDS, Api, recorded  # noqa: E402 - found by the line above

PLUGINS = sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml"))
PUBLIC = ("relay_gateway.plugin", "relay_gateway.errors")
GIT = ("git", "-c", "user.name=test", "-c", "user.email=test@localhost")


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("compatibility", ROOT / ".ci/compatibility.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


compatibility = load()


def imported(path: Path) -> Iterator[str]:
    """Full names of what a module takes from the public API."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, ast.ImportFrom) or node.module is None:
            continue
        if any(f"{node.module}.".startswith(f"{one}.") for one in PUBLIC):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def unknown(sources: Path, api: Api) -> list[str]:
    """What the modules below ``sources`` import and that API has not."""
    modules = {name.rpartition(".")[0] for name in api}
    names = {name for path in sources.rglob("*.py") for name in imported(path)}
    return sorted(name for name in names if name not in api and name not in modules)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def checkout(directory: Path) -> None:
    """A repository with a core that was released as 0.1.0, a newer one, and a plugin of which one
    test passes with the first and one with the second."""
    write(directory / "LICENSE", "")
    write(directory / "README.md", "")
    core(directory, "0.1.0", 'AGE = "old"\n')
    plugin = directory / "plugins" / "acme"
    write(plugin / "acme.py", "from relay_gateway import AGE\n")
    write(
        plugin / "pyproject.toml",
        PROJECT.format("acme", "1.0", '"relay-gateway>=0.1,<1"', "acme.py"),
    )
    write(
        plugin / "tests" / "test_acme.py",
        'import acme\n\ndef test_old():\n    assert acme.AGE == "old"\n'
        'def test_new():\n    assert acme.AGE == "new"\n',
    )
    git(directory, "init", "--quiet")
    git(directory, "add", ".")
    git(directory, "commit", "--quiet", "--message", "released")
    git(directory, "tag", "v0.1.0")
    core(directory, "0.2.0", 'AGE = "new"\n')


def core(directory: Path, version: str, text: str) -> None:
    write(directory / "relay_gateway" / "__init__.py", text)
    write(directory / "relay_gateway" / "testing" / "plugin.py", "")
    write(
        directory / "pyproject.toml", PROJECT.format("relay-gateway", version, "", "relay_gateway")
    )


PROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "{}"
version = "{}"
dependencies = [{}]
[tool.hatch.build.targets.wheel]
only-include = ["{}"]
[tool.pytest.ini_options]
addopts = "--import-mode=importlib"
"""


def git(directory: Path, *arguments: str) -> None:
    subprocess.run([*GIT, *arguments], cwd=directory, check=True, capture_output=True)


def run(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    script = ROOT / ".ci" / "compatibility.py"
    command = [sys.executable, str(script), "--root", str(directory), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda path: path.name)
def test_a_plugin_uses_only_what_the_lowest_core_that_it_claims_has(plugin: Path) -> None:
    known = [compatibility.Version(path.stem) for path in RECORDS.glob("*.json")]
    lowest = compatibility.lowest(compatibility.requirement(plugin), known)
    assert unknown(plugin / "src", recorded(str(lowest))) == []


def test_a_name_that_the_lowest_core_has_not_is_found(tmp_path: Path) -> None:
    (tmp_path / "new.py").write_text(
        "from relay_gateway.plugin import SecretBackend, Telepathy\n"
        "from relay_gateway.plugin.wire import CONTENT\nfrom relay_gateway.plugin import wire\n",
        "utf-8",
    )
    assert unknown(tmp_path, recorded("0.1.0")) == ["relay_gateway.plugin.Telepathy"]


def versions(*texts: str) -> Sequence[object]:
    return [compatibility.Version(text) for text in texts]


def test_the_lowest_core_is_the_first_release_that_a_plugin_accepts() -> None:
    wanted = compatibility.Requirement("relay-gateway>=0.2,<1")
    known = versions("0.10.0", "0.2.1", "0.1.0", "1.0.0")
    assert str(compatibility.lowest(wanted, known)) == "0.2.1"
    with pytest.raises(SystemExit, match=r">=0.2: there is no such core; there are 0.1.0"):
        compatibility.lowest(wanted, versions("0.1.0"))


def test_a_plugin_is_tested_with_the_lowest_core_that_was_released(tmp_path: Path) -> None:
    checkout(tmp_path)
    done = run(tmp_path)
    assert done.stdout.startswith("relay-gateway 0.1.0 (tag v0.1.0): acme\n"), done.stderr
    assert "assert 'old' == 'new'" in done.stdout
    assert "1 failed, 1 passed" in done.stdout
    assert done.returncode == 1, "what fails with the lowest core fails the run"


def test_nothing_is_run_for_plugins_that_need_this_checkout(tmp_path: Path) -> None:
    checkout(tmp_path)
    project = tmp_path / "plugins" / "acme" / "pyproject.toml"
    write(project, PROJECT.format("acme", "1.0", '"relay-gateway>=0.2,<1"', "acme.py"))
    done = run(tmp_path)
    assert (done.returncode, done.stdout) == (0, "relay-gateway 0.2.0 (this checkout): acme\n")
