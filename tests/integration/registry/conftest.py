"""Installs the fixture distributions of ``tests/plugins`` for one test, without an index."""

from __future__ import annotations

import hashlib
import importlib
import shutil
import sys
import tomllib
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint, distributions
from pathlib import Path

import pytest

from relay_gateway.plugin import PluginContext
from relay_gateway.registry import Timing

FIXTURES = Path(__file__).parents[2] / "plugins"
PREFIX = "relay_fixture_"


class Site:
    """A directory of installed distributions, like ``site-packages``."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def install(self, *names: str) -> None:
        """Unpacks the fixture distributions of these names, as an installer does with a wheel."""
        for name in names:
            with zipfile.ZipFile(build_wheel(name, self.path.parent)) as wheel:
                wheel.extractall(self.path)
        importlib.invalidate_caches()

    def entry_points(self) -> list[EntryPoint]:
        """All entry points of the distributions that are installed here."""
        found = distributions(path=[str(self.path)])
        return [point for distribution in found for point in distribution.entry_points]


def build_wheel(name: str, directory: Path) -> Path:
    """A wheel of the fixture distribution, from its ``pyproject.toml`` and its one module."""
    source = FIXTURES / name
    project = tomllib.loads((source / "pyproject.toml").read_text("utf-8"))["project"]
    stem = f"{project['name'].replace('-', '_')}-{project['version']}"
    files = {
        f"{PREFIX}{name}.py": (source / f"{PREFIX}{name}.py").read_bytes(),
        **{f"{stem}.dist-info/{file}": text.encode() for file, text in _metadata(project).items()},
    }
    record = [f"{path},sha256={_digest(content)},{len(content)}" for path, content in files.items()]
    record.append(f"{stem}.dist-info/RECORD,,")
    files[f"{stem}.dist-info/RECORD"] = "\n".join([*record, ""]).encode()
    target = directory / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(target, "w") as wheel:
        for path, content in files.items():
            wheel.writestr(path, content)
    return target


def _metadata(project: dict[str, str | dict[str, dict[str, str]]]) -> dict[str, str]:
    groups = project["entry-points"]
    assert isinstance(groups, dict)
    points = [
        line
        for group, named in groups.items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in named.items()), "")
    ]
    metadata = (
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
        f"Summary: {project['description']}\n"
    )
    wheel = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    return {"METADATA": metadata, "WHEEL": wheel, "entry_points.txt": "\n".join(points)}


def _digest(content: bytes) -> str:
    return urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


@pytest.fixture(scope="session")
def wheel_builder() -> Callable[[str, Path], Path]:
    """Builds the wheel of a fixture distribution in a directory."""
    return build_wheel


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """An importable, empty site directory; what was imported from it is forgotten afterwards."""
    path = tmp_path / "site"
    path.mkdir()
    monkeypatch.syspath_prepend(str(path))
    yield Site(path)
    for module in [name for name in sys.modules if name.startswith(PREFIX)]:
        del sys.modules[module]
    shutil.rmtree(path)


@pytest.fixture
def context_factory(tmp_path: Path) -> Callable[[str], PluginContext]:
    """Makes the context of a plugin."""
    return lambda name: PluginContext(name, tmp_path / "data", "sqlite:///relay.sqlite3")


@pytest.fixture
def timing() -> Timing:
    """Deadlines that a test can wait for."""
    return Timing(opening=0.05, closing=0.05, grace=0.02, first_retry=0.01, longest_retry=0.02)
