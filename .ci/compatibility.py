"""Runs each plugin's tests with the lowest core that it claims to work with.

``tox run -e compatibility`` does. The cores are those that were released, which are the tags
``v<version>`` of the repository that the checkout belongs to, and the version of the checkout
itself. With the checkout's own version there is nothing to run, because ``tox run -e tests`` does
that; ``--all`` runs it nevertheless. ``--plugins A B`` takes other directories than ``plugins/*``.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
CORE = "relay-gateway"
CORE_FILES = ("LICENSE", "README.md", "pyproject.toml", "relay_gateway")
TAG = re.compile(r"^v(\d[\w.]*)$")


def requirement(plugin: Path) -> Requirement:
    """What a plugin asks of the core. Raises :class:`SystemExit` where it asks for nothing."""
    project = tomllib.loads((plugin / "pyproject.toml").read_text("utf-8"))["project"]
    for line in project.get("dependencies", ()):
        wanted = Requirement(line)
        if wanted.name == CORE:
            return wanted
    raise SystemExit(f"{plugin.name}: its dependencies do not name {CORE}")


def released(root: Path) -> dict[Version, str]:
    """The cores that can be had from the repository of ``root``: version → tag; none where the
    checkout is no repository. Raises :class:`SystemExit` for one that cannot be read."""
    if not (root / ".git").exists():
        return {}
    done = run(*git(root), "tag", "--list", capture=True)
    if done.returncode:
        raise SystemExit(f"the tags of {root} cannot be listed: {done.stderr.decode()}")
    tags = [TAG.match(line) for line in done.stdout.decode().split()]
    return {Version(tag[1]): tag[0] for tag in tags if tag is not None}


def own_version(root: Path) -> Version:
    """The version of the checkout."""
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    return Version(project["version"])


def lowest(wanted: Requirement, known: Sequence[Version]) -> Version:
    """The lowest core that a plugin claims. Raises :class:`SystemExit` where there is none."""
    fitting = [version for version in known if wanted.specifier.contains(version)]
    if not fitting:
        there = ", ".join(map(str, sorted(known)))
        raise SystemExit(f"{wanted}: there is no such core; there are {there}")
    return min(fitting)


def groups(root: Path, plugins: Sequence[Path]) -> Mapping[Version, list[Path]]:
    """The plugins by the lowest core that they claim."""
    known = [*released(root), own_version(root)]
    found: defaultdict[Version, list[Path]] = defaultdict(list)
    for plugin in plugins:
        found[lowest(requirement(plugin), known)].append(plugin)
    return found


def run_with(root: Path, core: Version, plugins: Sequence[Path]) -> int:
    """Runs the tests of ``plugins`` with that core in an environment of its own; the exit code."""
    with tempfile.TemporaryDirectory(prefix="relay-compatibility-") as name:
        directory = Path(name)
        source = root
        if core != own_version(root):
            source = directory / "core"
            unpack(root, released(root)[core], source)
        python = environment(directory / "venv")
        install = ["install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps"]
        copies = [directory / "plugins" / plugin.name for plugin in plugins]
        for plugin, copy in zip(plugins, copies, strict=True):
            shutil.copytree(plugin, copy)
        done = run(python, "-m", "pip", *install, "--no-build-isolation", source, *copies)
        done.check_returncode()
        options = ["-q", "-p", "no:cacheprovider", f"--rootdir={directory}"]
        options += ["-c", str(root / "pyproject.toml")]
        tests = [copy / "tests" for copy in copies]
        # Not from the checkout, whose core would be the first that is found.
        return run(python, "-m", "pytest", *options, *tests, cwd=directory).returncode


def unpack(root: Path, tag: str, directory: Path) -> None:
    """The sources of a released core."""
    archive = run(*git(root), "archive", "--format=tar", tag, *CORE_FILES, capture=True)
    archive.check_returncode()
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as files:
        # Python 3.11 has filters from its fourth release on; what git writes needs none.
        files.extraction_filter = getattr(tarfile, "data_filter", None)
        files.extractall(directory)  # noqa: S202 - of our own history


def environment(directory: Path) -> Path:
    """A virtual environment on top of the one that this runs in: what is installed in it comes
    first, and all other dependencies are there already. Its interpreter."""
    run(sys.executable, "-m", "venv", "--without-pip", directory).check_returncode()
    paths = sysconfig.get_paths(vars={"base": str(directory), "platbase": str(directory)})
    below = Path(paths["purelib"]) / "below.pth"
    below.write_text(f"{sysconfig.get_paths()['purelib']}\n", "utf-8")
    return directory / "bin" / "python"


def git(root: Path) -> tuple[str, ...]:
    """The command for the repository of ``root``, whoever its files belong to."""
    return (shutil.which("git") or "git", "-c", "safe.directory=*", "-C", str(root))


def run(
    *command: str | Path, capture: bool = False, cwd: Path | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Runs a program to its end."""
    return subprocess.run(command, capture_output=capture, check=False, cwd=cwd)  # noqa: S603 - ours


def lines(found: Mapping[Version, list[Path]], own: Version) -> Iterator[str]:
    """What is to be run, for people."""
    for core, plugins in sorted(found.items()):
        which = "this checkout" if core == own else f"tag v{core}"
        yield f"{CORE} {core} ({which}): {', '.join(plugin.name for plugin in plugins)}"


def main(arguments: Sequence[str]) -> int:
    """Runs what there is to run; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="with this checkout's core, too")
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout")
    parser.add_argument("--plugins", type=Path, nargs="+", help="directories of plugins")
    options = parser.parse_args(arguments)
    root = options.root
    projects = sorted(root.glob("plugins/*/pyproject.toml"))
    plugins = options.plugins or [path.parent for path in projects]
    found, own = groups(root, plugins), own_version(root)
    sys.stdout.write("".join(f"{line}\n" for line in lines(found, own)))
    sys.stdout.flush()
    codes = [
        run_with(root, core, group)
        for core, group in sorted(found.items())
        if core != own or options.all
    ]
    return max(codes, default=0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
