"""A primary, a standby of it, and the moment at which the one takes over from the other."""

from __future__ import annotations

from typing import Self

from relay_gateway.testing.postgres import PostgresServer
from relay_gateway.testing.standby import StandbyServer

_READ_ONLY = ("ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()")
_STATE = """
SELECT revision, (SELECT count(*) FROM entities), (SELECT count(*) FROM catalog_changes),
       (SELECT count(*) FROM audit_records) FROM catalog_revision
"""


class Failover:
    """Two servers at one address that names both. Nothing here needs an event loop."""

    def __init__(self, primary: PostgresServer) -> None:
        self.primary = primary
        self.standby = StandbyServer(primary)
        self._database = ""

    def __enter__(self) -> Self:
        self._database = self.primary.create_database().rpartition("/")[2]
        self.standby.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.standby.close()

    @property
    def url(self) -> str:
        """The address of a new database, at either."""
        servers = f"127.0.0.1:{self.primary.port},127.0.0.1:{self.standby.port}"
        return f"postgresql://postgres@{servers}/{self._database}"

    def synchronize(self) -> None:
        """Waits until the standby has all that the primary has."""
        self.standby.wait_for(self.primary.execute("SELECT pg_current_wal_lsn()").strip())

    def fail_over(self) -> None:
        """Kills the primary and promotes the standby."""
        self.primary.kill()
        self.standby.promote()

    def make_read_only(self) -> None:
        """Has the primary refuse writes, as after a switch of roles, and goes on serving reads."""
        for statement in _READ_ONLY:
            self.primary.execute(statement)
        self.synchronize()

    def state(self, server: PostgresServer) -> str:
        """The revision that ``server`` has, and how many entities, changes and audit records."""
        return server.execute(_STATE, url=server.url_of(self._database))

    def promote(self) -> None:
        """Promotes the standby; the primary stays as it is."""
        self.standby.promote()
