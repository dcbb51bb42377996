"""Distributions installed beside the gateway for a test: in a directory of their own on the search
path of the processes that the test starts."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

SECONDS = 300.0
"""A program that takes longer hangs; the suites of every kind take minutes on a busy machine."""


class PluginSite:
    """A directory with installed distributions. It needs ``hatchling``, and no network."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @property
    def environ(self) -> dict[str, str]:
        """The environment of a process that finds the distributions."""
        kept = {name: value for name, value in os.environ.items() if name[:6] != "RELAY_"}
        return {**kept, "PYTHONPATH": str(self.directory)}

    def install(self, *distributions: Path) -> None:
        """Installs them as a user would, without their dependencies: those are there already."""
        options = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
        options += ["--disable-pip-version-check", "--target", str(self.directory)]
        self.run("-m", "pip", "install", *options, *map(str, distributions))

    def gateway(self, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Runs ``relay-gateway`` with these plugins, whatever comes of it."""
        command = [sys.executable, "-m", "relay_gateway.cli.main", *arguments]
        return _run(command, self.environ, cwd)

    def run(self, *arguments: str, cwd: Path | None = None) -> str:
        """Runs Python with these plugins; its output. ``AssertionError`` shows it where the
        program failed."""
        done = _run([sys.executable, *arguments], self.environ, cwd)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout


def interpreter_with(requirements: Path, home: Path, variable: str) -> Path:
    """An interpreter that has ``requirements``: the one that the environment's ``variable`` names,
    else that of a new environment in ``home``, for which a package index is needed."""
    given = os.environ.get(variable)
    if given:
        return Path(given)
    made = home / "bin" / "python"
    install = ("-m", "pip", "install", "--quiet", "-r", str(requirements))
    for command in ((sys.executable, "-m", "venv", str(home)), (str(made), *install)):
        subprocess.run(command, check=True)  # noqa: S603 - the interpreter, and one made by it
    return made


def _run(
    command: Sequence[str], environ: dict[str, str], cwd: Path | None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - the interpreter that runs this, and what a test installs
        command, env=environ, cwd=cwd, capture_output=True, text=True, timeout=SECONDS, check=False
    )
