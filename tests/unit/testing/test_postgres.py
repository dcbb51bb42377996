"""A real PostgreSQL server: fresh databases, crash and recovery, and a clear word when absent."""

from __future__ import annotations

from pathlib import Path

import asyncpg
import pytest

from relay_gateway.testing import postgres_binaries
from relay_gateway.testing.postgres import PostgresError, PostgresServer
from relay_gateway.testing.postgres_binaries import PostgresMissingError


async def test_a_database_is_fresh_and_speaks_to_the_driver(postgres_url: str) -> None:
    connection = await asyncpg.connect(postgres_url)
    try:
        assert await connection.fetchval("SELECT count(*) FROM pg_stat_user_tables") == 0
        await connection.execute("CREATE TABLE t (x text)")
    finally:
        await connection.close()


async def test_databases_do_not_see_each_other(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    postgres_server.execute("CREATE TABLE t (x text)", url=postgres_url)
    other = postgres_server.create_database()
    with pytest.raises(PostgresError, match="does not exist"):
        postgres_server.execute("SELECT * FROM t", url=other)
    postgres_server.drop_database(other)
    with pytest.raises(asyncpg.InvalidCatalogNameError):
        await asyncpg.connect(other)


async def test_the_unix_socket_works_too(postgres_server: PostgresServer) -> None:
    connection = await asyncpg.connect(postgres_server.socket_url_of("postgres"))
    try:
        assert await connection.fetchval("SELECT inet_server_addr()") is None
    finally:
        await connection.close()


def test_a_dump_shows_the_rows(postgres_server: PostgresServer, postgres_url: str) -> None:
    postgres_server.execute(
        "CREATE TABLE t (x text); INSERT INTO t VALUES ('needle')", url=postgres_url
    )
    assert "needle" in postgres_server.dump(postgres_url)


def test_committed_rows_survive_a_kill(postgres_server: PostgresServer, postgres_url: str) -> None:
    postgres_server.execute("CREATE TABLE t AS SELECT 7 AS x", url=postgres_url)
    port = postgres_server.port
    postgres_server.kill()
    assert not postgres_server.running
    with pytest.raises(PostgresError):
        postgres_server.execute("SELECT 1")
    postgres_server.restart()
    assert postgres_server.port == port
    assert postgres_server.execute("SELECT x FROM t", url=postgres_url).strip() == "7"


def test_a_stop_is_orderly_and_may_be_repeated(postgres_server: PostgresServer) -> None:
    postgres_server.stop()
    postgres_server.stop()
    postgres_server.kill()
    assert not postgres_server.running
    postgres_server.restart()
    assert postgres_server.running


def test_a_machine_without_postgresql_fails_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(postgres_binaries, "SYSTEM_ROOT", tmp_path / "absent")
    monkeypatch.setattr(postgres_binaries, "WHEEL", "no_such_wheel")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PostgresMissingError, match="Install the package 'postgresql'"):
        PostgresServer().start()


def test_the_wheel_serves_where_the_system_has_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(postgres_binaries, "SYSTEM_ROOT", tmp_path / "absent")
    monkeypatch.setenv("PATH", str(tmp_path))
    with PostgresServer() as server:
        assert server.execute("SELECT 1", url=server.create_database()).strip() == "1"
