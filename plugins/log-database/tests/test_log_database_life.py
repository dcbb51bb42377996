"""Opening, closing, sharing and losing the database."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from relay_gateway.errors import PluginLoadError, StorageUnavailableError
from relay_gateway.plugin import LogQuery, UsageQuery, UsageRecord
from relay_gateway.testing.context import plugin_context
from relay_gateway.testing.plugin_tests import new_id
from relay_gateway.testing.postgres import PostgresServer
from relay_gateway_log_database import (
    DatabasePayloads,
    DatabaseSink,
    DatabaseSinkConfig,
    relay_register_payload_loggers,
    relay_register_usage_sinks,
)
from relay_gateway_log_database.config import USAGE_FILE, locate

CANARY = "canary-5f1c9e7d2b"


def record() -> UsageRecord:
    return UsageRecord(request_id=new_id(), started_at="2026-01-01T00:00:00Z")


def unopened(directory: Path, database_url: str, url: str | None = None) -> DatabaseSink:
    config = DatabaseSinkConfig(url=None if url is None else SecretStr(url))
    return DatabaseSink(config, plugin_context(directory, database_url=database_url))


async def test_records_outlive_the_process(database_url: str, tmp_path: Path) -> None:
    written = record()
    for _ in range(2):
        sink = unopened(tmp_path, database_url)
        await sink.aopen()
        await sink.write([written])
        assert await sink.get(written.request_id) == written
        await sink.aclose()
        await sink.aclose()


async def test_before_it_is_open_and_after_it_is_closed_the_sink_is_unavailable(
    database_url: str, tmp_path: Path
) -> None:
    sink = unopened(tmp_path, database_url)
    await sink.aclose()
    with pytest.raises(StorageUnavailableError, match="not open"):
        await sink.write([record()])
    await sink.aopen()
    await sink.aclose()
    with pytest.raises(StorageUnavailableError, match="not open"):
        await sink.query(LogQuery())


async def test_a_cancelled_opening_does_not_stand_in_the_way_of_the_next(
    database_url: str, tmp_path: Path
) -> None:
    sink = unopened(tmp_path, database_url)
    for steps in range(0, 24, 4):
        opening = asyncio.create_task(sink.aopen())
        for _ in range(steps):
            await asyncio.sleep(0)
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)
    await sink.aopen()
    await sink.write([record()])
    assert len((await sink.query(LogQuery())).items) == 1
    await sink.aclose()


async def test_instances_that_open_at_once_share_one_database(
    database_url: str, tmp_path: Path
) -> None:
    sinks = [unopened(tmp_path, database_url) for _ in range(6)]
    await asyncio.gather(*(sink.aopen() for sink in sinks))
    records = [record() for _ in sinks]
    await asyncio.gather(*(s.write([r]) for s, r in zip(sinks, records, strict=True)))
    assert len((await sinks[0].query(LogQuery())).items) == 6
    for sink in sinks:
        await sink.aclose()


PROCESS = """
    import asyncio, sys
    from pathlib import Path
    from relay_gateway.testing.plugin_tests import new_id
    from relay_gateway.plugin import UsageRecord
    from relay_gateway.testing.context import plugin_context
    from relay_gateway_log_database import DatabaseSink, DatabaseSinkConfig

    async def run(directory, url):
        sink = DatabaseSink(DatabaseSinkConfig(), plugin_context(Path(directory), database_url=url))
        print("ready", flush=True)
        sys.stdin.readline()
        await sink.aopen()
        await sink.write(
            [UsageRecord(request_id=new_id(), started_at="2026-01-01T00:00:00Z") for _ in range(50)]
        )
        await sink.aclose()

    asyncio.run(run(*sys.argv[1:]))
"""


def run_at_once(command: list[str], count: int) -> None:
    """Starts ``count`` processes, lets them go when all are ready, and waits for their success."""
    pipe = subprocess.PIPE
    started = [
        subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        for _ in range(count)
    ]
    for process in started:
        assert process.stdout is not None
        process.stdout.readline()
    for process in started:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in started:
        _, errors = process.communicate(timeout=30)
        assert process.returncode == 0, errors


async def test_processes_that_start_at_once_share_one_database(
    database_url: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", textwrap.dedent(PROCESS), str(tmp_path), database_url]
    run_at_once(command, 2)
    sink = unopened(tmp_path, database_url)
    await sink.aopen()
    assert [row.requests for row in await sink.summarize(UsageQuery())] == [100]
    await sink.aclose()


async def test_on_sqlite_usage_has_a_private_file_of_its_own_in_wal_mode(tmp_path: Path) -> None:
    directory = tmp_path / "new" / "data"
    sink = unopened(directory, f"sqlite:///{tmp_path / 'relay.sqlite3'}")
    await sink.aopen()
    await sink.write([record()])
    for name in ("usage.sqlite3", "usage.sqlite3-wal"):
        assert stat.S_IMODE((directory / name).stat().st_mode) == 0o600
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert not (tmp_path / "relay.sqlite3").exists()
    await sink.aclose()
    connection = sqlite3.connect(directory / "usage.sqlite3")
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


async def test_readers_go_on_while_another_process_writes_to_sqlite(tmp_path: Path) -> None:
    sink = unopened(tmp_path, "sqlite:///unused")
    await sink.aopen()
    written = record()
    await sink.write([written])
    writer = sqlite3.connect(tmp_path / "usage.sqlite3", isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    assert (await sink.query(LogQuery())).items == (written,)
    assert [row.requests for row in await sink.summarize(UsageQuery())] == [1]
    writer.execute("ROLLBACK")
    writer.close()
    await sink.aclose()


@pytest.mark.parametrize(
    ("database_url", "url", "found"),
    [
        ("sqlite:///gateway", None, "sqlite:///{data}/usage.sqlite3"),
        ("postgresql://h/gateway", None, "postgresql://h/gateway"),
        ("postgresql://h/gateway", "sqlite:////own/file", "sqlite:////own/file"),
        ("sqlite:///gateway", "postgres://h/usage", "postgres://h/usage"),
    ],
)
def test_where_usage_is_kept(
    tmp_path: Path, database_url: str, url: str | None, found: str
) -> None:
    sink = unopened(tmp_path, database_url, url)
    assert locate(sink.config, sink.context, USAGE_FILE) == found.format(data=tmp_path)


@pytest.mark.parametrize(
    "url",
    [f"mysql://u:{CANARY}@h/d", "", "sqlite://", "sqlite:///:memory:", "sqlite:///", "file.db"],
)
def test_an_address_of_another_kind_is_a_configuration_error_without_its_password(
    url: str,
) -> None:
    with pytest.raises(ValidationError, match="must be sqlite:///FILE or postgresql://") as caught:
        DatabaseSinkConfig(url=SecretStr(url))
    assert CANARY not in str(caught.value)


def test_the_address_is_masked_where_the_configuration_is_shown() -> None:
    config = DatabaseSinkConfig(url=SecretStr(f"postgresql://u:{CANARY}@h/d"))
    assert CANARY not in repr(config) + config.model_dump_json()


async def test_tables_of_a_newer_plugin_are_left_alone(database_url: str, tmp_path: Path) -> None:
    sink = unopened(tmp_path, database_url)
    await sink.aopen()
    async with sink._database.store.engine.begin() as connection:
        await connection.exec_driver_sql("UPDATE usage_schema SET version = 99")
    await sink.aclose()
    with pytest.raises(PluginLoadError, match="have version 99, this plugin knows"):
        await sink.aopen()
    with pytest.raises(StorageUnavailableError, match="not open"):
        await sink.get("x")


async def test_an_unreachable_server_is_unavailable_and_its_password_is_not_told(
    tmp_path: Path, unused_tcp_port: int
) -> None:
    url = f"postgresql://u:{CANARY}@127.0.0.1:{unused_tcp_port}/d"
    sink = unopened(tmp_path, url)
    with pytest.raises(StorageUnavailableError, match="cannot be asked right now") as caught:
        await sink.aopen()
    assert CANARY not in str(caught.value) + str(caught.value.__cause__)
    await sink.aclose()


async def test_a_file_that_is_no_database_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "usage.sqlite3").write_text("not a database, just a text that is long enough" * 20)
    sink = unopened(tmp_path, "sqlite:///unused")
    with pytest.raises(StorageUnavailableError, match="DatabaseError"):
        await sink.aopen()


async def test_f16_after_an_outage_of_the_server_the_same_sink_goes_on(tmp_path: Path) -> None:
    with PostgresServer() as server:
        sink = unopened(tmp_path, server.create_database())
        await sink.aopen()
        first, second = record(), record()
        await sink.write([first])
        server.stop()
        with pytest.raises(StorageUnavailableError):
            await sink.write([second])
        with pytest.raises(StorageUnavailableError):
            await sink.query(LogQuery())
        server.restart()
        await sink.write([first, second])
        assert len((await sink.query(LogQuery())).items) == 2
        # This time nobody asks while it is away: the connections die unnoticed.
        server.restart()
        assert await sink.get(first.request_id) == first
        await sink.aclose()


async def test_the_unix_socket_of_a_server_works_too(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    database = postgres.create_database()
    sink = unopened(tmp_path, postgres.socket_url_of(database.rpartition("/")[2]))
    await sink.aopen()
    await sink.write([record()])
    assert len((await sink.query(LogQuery())).items) == 1
    await sink.aclose()
    postgres.drop_database(database)


def test_the_hook_hands_over_the_sink() -> None:
    assert list(relay_register_usage_sinks()) == [DatabaseSink]
    assert DatabaseSink.reads


LOADED = """
import sys, relay_gateway_log_database
print([name for name in sys.modules if "asyncpg" in name or "dialects.postgresql" in name])
"""


def test_the_drivers_of_postgresql_are_not_loaded_for_sqlite() -> None:
    command = [sys.executable, "-c", LOADED]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_the_hook_hands_over_the_logger() -> None:
    assert list(relay_register_payload_loggers()) == [DatabasePayloads]
    assert DatabasePayloads.reads
