"""A real PostgreSQL server for tests: started on demand, a fresh database per test, killable."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from itertools import count
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from relay_gateway.testing.postgres_binaries import Account, find_binaries, server_account

SUPERUSER = "postgres"
START_ATTEMPTS = 5
START_SECONDS = 30.0
STOP_SECONDS = 20.0
SETTINGS = """
listen_addresses = '127.0.0.1'
unix_socket_directories = '{directory}'
port = {port}
fsync = off
shared_buffers = '32MB'
max_connections = 100
timezone = 'UTC'
"""


class PostgresError(RuntimeError):
    """A server program failed; the message has what it printed."""


class PostgresServer:
    """One PostgreSQL server on a loopback port, with its own data directory.

    Durability is off: a killed *server* recovers, a killed machine would not. Use as a context
    manager, or :meth:`start` and :meth:`close`. Nothing here needs an event loop, so sync fixtures
    and async tests can both use it.
    """

    def __init__(self) -> None:
        self._account = Account()
        self._directory = Path()
        self._binaries = Path()
        self._databases = count(1)
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        """Address of the maintenance database, by TCP."""
        return self.url_of(SUPERUSER)

    def url_of(self, database: str) -> str:
        """Address of ``database`` by TCP: ``postgresql://user@127.0.0.1:port/database``."""
        return f"postgresql://{SUPERUSER}@127.0.0.1:{self.port}/{database}"

    def socket_url_of(self, database: str) -> str:
        """Address of ``database`` by its unix socket, as libpq and asyncpg take it."""
        return f"postgresql://{SUPERUSER}@/{database}?host={self._directory}&port={self.port}"

    def start(self) -> None:
        """Makes a data directory and starts the server.

        Raises :class:`PostgresMissingError` when the machine has no PostgreSQL: a test that needs
        it fails, it is never skipped.
        """
        self._account = server_account()
        self._directory = scratch_directory(self._account)
        try:
            self._binaries = find_binaries(self._account, self._directory)
            self.port = free_port()
            self._run(
                "initdb", "-U", SUPERUSER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync",
                "-D", str(self.data),
            )  # fmt: skip
            with (self.data / "postgresql.conf").open("a") as settings:
                settings.write(SETTINGS.format(directory=self._directory, port=self.port))
            self.restart()
        except BaseException:
            shutil.rmtree(self._directory, ignore_errors=True)
            raise

    def restart(self) -> None:
        """Starts the server again on the same port and data, stopping it first where it runs."""
        self.stop()
        for attempt in range(1, START_ATTEMPTS + 1):
            try:
                self._launch()
            except PostgresError:
                # After a kill, backends hold the shared memory for a moment longer.
                if attempt == START_ATTEMPTS:
                    raise
                time.sleep(0.2 * attempt)
            else:
                return

    def stop(self) -> None:
        """Stops the server in order, ending every session; a stopped one stays stopped."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """``SIGKILL`` for the server process, as a crash would; returns when it is gone."""
        self._end(signal.SIGKILL)

    def close(self) -> None:
        """Stops the server and deletes its files."""
        try:
            self.stop()
        finally:
            shutil.rmtree(self._directory, ignore_errors=True)

    def create_database(self) -> str:
        """Address of a new, empty database."""
        name = f"test_{os.getpid()}_{next(self._databases)}"
        self.execute(f'CREATE DATABASE "{name}" TEMPLATE template0')
        return self.url_of(name)

    def drop_database(self, url: str) -> None:
        """Drops the database at ``url`` and ends the sessions that use it."""
        self.execute(f'DROP DATABASE IF EXISTS "{_database(url)}" WITH (FORCE)')

    def execute(self, statement: str, *, url: str | None = None) -> str:
        """Runs SQL and returns its rows, one line each, columns separated by ``|``."""
        return self._run(
            "psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", url or self.url,
            text=statement,
        )  # fmt: skip

    def dump(self, url: str) -> str:
        """Everything in the database at ``url`` as SQL text, for a canary sweep."""
        return self._run("pg_dump", "-d", url)

    @property
    def running(self) -> bool:
        """Whether the server process is alive."""
        return self._process is not None and self._process.poll() is None

    @property
    def data(self) -> Path:
        """The data directory."""
        return self._directory / "data"

    @property
    def _log(self) -> Path:
        return self._directory / "log"

    def _launch(self) -> None:
        with self._log.open("ab") as log:
            self._process = self._account.spawn(
                [str(self._binaries / "postgres"), "-D", str(self.data)], log
            )
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self.running:
            if self._ready():
                return
            time.sleep(0.01)
        self.kill()
        raise PostgresError(f"the server did not start:\n{self._log_tail()}")

    def _ready(self) -> bool:
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        # The file of a killed server lies there until the new one replaces it.
        return bool(lines) and lines[0] == str(self._pid) and lines[-1].strip() == "ready"

    @property
    def _pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def _end(self, sign: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(sign)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_SECONDS)

    def _run(self, program: str, *arguments: str, text: str = "") -> str:
        done = self._account.run([str(self._binaries / program), *arguments], text=text)
        if done.returncode != 0:
            message = f"{program} failed: {done.stderr.strip()}\n{self._log_tail()}"
            raise PostgresError(message.rstrip())
        return done.stdout

    def _log_tail(self) -> str:
        try:
            return self._log.read_text(errors="replace")[-2000:]
        except FileNotFoundError:
            return ""


def scratch_directory(account: Account) -> Path:
    """A new directory in which ``account`` may write."""
    # TMPDIR of root may lie where no other account can go, and the path of a socket is short.
    parent = "/tmp" if account.uid is not None else None  # noqa: S108 - mkdtemp makes it private
    directory = Path(tempfile.mkdtemp(prefix="relay-pg-", dir=parent))
    if account.uid is not None and account.gid is not None:
        os.chown(directory, account.uid, account.gid)
    return directory


def free_port() -> int:
    """A loopback port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _database(url: str) -> str:
    return urlsplit(url).path.lstrip("/")
