"""The frozen distributions, installed once for all tests of this directory."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from relay_gateway.testing.installed import PluginSite

FROZEN = Path(__file__).parent / "frozen"


@pytest.fixture(scope="session")
def frozen_site(tmp_path_factory: pytest.TempPathFactory) -> PluginSite:
    """All of them, installed from a copy: building leaves files behind."""
    directory = tmp_path_factory.mktemp("frozen")
    shutil.copytree(FROZEN, directory / "source")
    site = PluginSite(directory / "site")
    site.install(*(path.parent for path in (directory / "source").glob("*/pyproject.toml")))
    return site
