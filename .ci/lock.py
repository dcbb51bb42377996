"""Writes ``constraints.txt``: every dependency of core, plugins and tests, pinned with hashes.

Run it with ``tox run -e lock``.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
OUTPUT = ROOT / "constraints.txt"
HEADING = """\
# Every dependency of the core, the plugins and the tests, pinned with hashes (Python 3.11 and up).
# Written by: tox run -e lock. For an installation of exactly these versions:
#   pip install --require-hashes -r constraints.txt
#   pip install --no-deps --no-build-isolation -r requirements.txt
"""
BACKPORTS = {"async-timeout": 'python_full_version < "3.11.3"'}
"""What older interpreters need besides, which the one that resolves does not see: Debian 12 has
Python 3.11.2, where redis asks for a backport."""
OPTIONS = (
    "--allow-unsafe",
    "--generate-hashes",
    "--no-annotate",
    "--no-emit-find-links",
    "--no-emit-index-url",
    "--no-emit-options",
    "--no-emit-trusted-host",
    "--no-header",
    "--quiet",
    "--strip-extras",
    "--upgrade",
)


def requirements() -> Iterator[str]:
    """What the projects of this repository require, without each other."""
    for path in [ROOT / "pyproject.toml", *sorted(ROOT.glob("plugins/*/pyproject.toml"))]:
        project = tomllib.loads(path.read_text("utf-8"))["project"]
        extras = project.get("optional-dependencies", {}).values()
        for group in (project.get("dependencies", []), *extras):
            yield from (line for line in group if not line.startswith("relay-gateway"))


def resolved(wanted: list[str], directory: Path) -> str:
    """``wanted`` and what it needs, pinned, in the form of a requirements file."""
    source, found = directory / "requirements.in", directory / "constraints.txt"
    source.write_text("\n".join(wanted), "utf-8")
    command = (sys.executable, "-m", "piptools", "compile", *OPTIONS)
    subprocess.run([*command, f"--output-file={found}", source], check=True)  # noqa: S603
    return found.read_text("utf-8")


def main() -> None:
    """Resolves anew and replaces the file, unless resolving fails."""
    with tempfile.TemporaryDirectory() as directory:
        pinned = resolved(sorted(set(requirements())), Path(directory))
        for name, marker in BACKPORTS.items():
            with tempfile.TemporaryDirectory() as beside:
                backport = resolved([name], Path(beside))
            pinned += backport.replace(" \\", f" ; {marker} \\", 1)
        OUTPUT.write_text(HEADING + pinned, "utf-8")


if __name__ == "__main__":
    main()
