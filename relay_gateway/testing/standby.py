"""A second PostgreSQL server that follows a first one and can take over."""

from __future__ import annotations

from relay_gateway.testing.postgres import (
    SETTINGS,
    PostgresError,
    PostgresServer,
    free_port,
    scratch_directory,
)
from relay_gateway.testing.postgres_binaries import find_binaries, server_account


class StandbyServer(PostgresServer):
    """A copy of ``primary`` that replays what that writes, until it is promoted.

    The primary stands still for the moment in which it is copied. The last one of its settings
    counts, so those of the copy stand at the end.
    """

    def __init__(self, primary: PostgresServer) -> None:
        super().__init__()
        self._primary = primary

    def start(self) -> None:
        """Copies the primary and starts following it."""
        self._account = server_account()
        self._directory = scratch_directory(self._account)
        self._binaries = find_binaries(self._account, self._directory)
        self.port = free_port()
        self._primary.stop()
        self._copy()
        self._primary.restart()
        with (self.data / "postgresql.conf").open("a") as settings:
            settings.write(SETTINGS.format(directory=self._directory, port=self.port))
            settings.write(f"primary_conninfo = 'host=127.0.0.1 port={self._primary.port} ")
            settings.write("user=postgres'\n")
        (self.data / "standby.signal").touch()
        self.restart()

    def promote(self) -> None:
        """Takes over: from now on it takes writes."""
        self.execute("SELECT pg_promote()")

    def wait_for(self, position: str) -> None:
        """Waits until it has replayed the primary's log up to ``position``."""
        self.execute(
            f"DO $$ BEGIN FOR i IN 1..1000 LOOP "
            f"EXIT WHEN pg_last_wal_replay_lsn() >= '{position}'::pg_lsn; "
            f"PERFORM pg_sleep(0.01); END LOOP; END $$"
        )

    def _copy(self) -> None:
        done = self._account.run(["/bin/cp", "-a", str(self._primary.data), str(self.data)])
        if done.returncode != 0:
            raise PostgresError(f"the primary cannot be copied: {done.stderr}")
