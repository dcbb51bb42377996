from __future__ import annotations

import asyncio
import sqlite3
import stat
from pathlib import Path

import pytest
from sqlalchemy import text

from relay_gateway.errors import SettingsError, StorageUnavailableError
from relay_gateway.storage import CatalogStore, NewEntity, create_engine, migrate
from relay_gateway.storage.engine import writing
from relay_gateway.testing.postgres import PostgresServer


def modes_in(directory: Path) -> set[int]:
    return {stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()}


@pytest.mark.parametrize(
    "url", ["mysql://h/db", "nonsense", "", "sqlite://", "sqlite+aiosqlite:///x", "postgresql"]
)
def test_another_address_is_refused_with_the_two_that_work(url: str) -> None:
    with pytest.raises(SettingsError, match="sqlite:///PATH"):
        create_engine(url)


def test_a_password_in_a_bad_address_is_not_repeated() -> None:
    with pytest.raises(SettingsError) as caught:
        create_engine("mysql://user:hunter2@h/db")
    assert "hunter2" not in str(caught.value)


async def test_a_sqlite_file_that_cannot_be_opened_is_unavailable(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path}/absent/catalog.sqlite3")
    with pytest.raises(StorageUnavailableError, match="No such file or directory"):
        await CatalogStore(engine).load()
    await engine.dispose()


async def test_a_directory_is_no_database(tmp_path: Path) -> None:
    with pytest.raises(StorageUnavailableError, match="no file that can be read and written"):
        await migrate(f"sqlite:///{tmp_path}")


async def test_a_file_that_is_no_database_is_unavailable(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite3"
    path.write_bytes(b"this is no database" * 100)
    with pytest.raises(StorageUnavailableError):
        await migrate(f"sqlite:///{path}")


async def test_sqlite_writes_ahead_and_is_read_while_it_is_written(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/catalog.sqlite3"
    await migrate(url)
    engine = create_engine(url)
    async with engine.connect() as connection:
        for pragma, value in (("journal_mode", "wal"), ("foreign_keys", 1), ("synchronous", 2)):
            assert (await connection.exec_driver_sql(f"PRAGMA {pragma}")).scalar() == value
    await engine.dispose()
    assert modes_in(tmp_path) == {0o600}


async def test_f01_a_database_that_is_down_is_unavailable(postgres_server: PostgresServer) -> None:
    url = f"postgresql://postgres@127.0.0.1:1/{postgres_server.port}"
    engine = create_engine(url)
    with pytest.raises(StorageUnavailableError, match="cannot be asked right now"):
        await CatalogStore(engine).load()
    await engine.dispose()


async def test_f03_the_store_recovers_when_its_server_comes_back() -> None:
    with PostgresServer() as server:
        url = server.create_database()
        await migrate(url)
        engine = create_engine(url)
        store = CatalogStore(engine)
        await store.create(NewEntity(kind="provider", display_name="Acme", spec={}))
        server.kill()
        for _ in range(2):
            with pytest.raises(StorageUnavailableError):
                await store.load()
        server.restart()
        assert (await store.load()).revision == 1
        await engine.dispose()


async def test_f05_a_read_only_database_refuses_writes_whole_and_serves_reads(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    await migrate(postgres_url)
    name = postgres_url.rsplit("/", 1)[1]
    postgres_server.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
    engine = create_engine(postgres_url)
    store = CatalogStore(engine)
    with pytest.raises(StorageUnavailableError):
        await store.create(NewEntity(kind="provider", display_name="Acme", spec={}))
    assert await store.revision() == 0
    await engine.dispose()


async def test_a_unix_socket_and_libpq_ssl_modes_are_understood(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    name = postgres_url.rsplit("/", 1)[1]
    for url in (postgres_server.socket_url_of(name), f"{postgres_url}?sslmode=disable"):
        await migrate(url)
        engine = create_engine(url)
        assert await CatalogStore(engine).is_empty()
        await engine.dispose()


@pytest.mark.parametrize(
    ("servers", "query", "places", "target"),
    [
        ("a:1,b:2", "", ("a:1", "b:2"), "read-write"),
        ("a,b:2", "?sslmode=require", ("a:5432", "b:2"), "read-write"),
        ("a:1,b", "?target_session_attrs=any", ("a:1", "b:5432"), "any"),
    ],
)
async def test_f05_of_several_servers_the_one_that_takes_writes_is_meant(
    servers: str, query: str, places: tuple[str, ...], target: str
) -> None:
    engine = create_engine(f"postgresql://user:secret@{servers}/name{query}")
    assert engine.url.query["host"] == places
    assert engine.url.query["target_session_attrs"] == target
    assert (engine.url.username, engine.url.password, engine.url.database) == (
        "user", "secret", "name",
    )  # fmt: skip
    await engine.dispose()


LONG = """WITH RECURSIVE numbers(n) AS
(SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 30000)
SELECT n FROM numbers ORDER BY n DESC"""


async def test_a_write_that_is_cancelled_leaves_no_lock_behind(tmp_path: Path) -> None:
    file = tmp_path / "relay.sqlite3"
    engine = create_engine(f"sqlite:///{file}")

    async def write(began: asyncio.Event) -> None:
        async with writing(engine) as connection:
            began.set()
            await connection.execute(text(LONG))

    for _ in range(5):
        began = asyncio.Event()
        task = asyncio.create_task(write(began))
        await began.wait()
        await asyncio.sleep(0.002)
        task.cancel()
        # What it raised is kept, and with it the statement that ran and its result.
        (cancelled,) = await asyncio.gather(task, return_exceptions=True)
        assert isinstance(cancelled, asyncio.CancelledError)
        other = sqlite3.connect(file, timeout=0, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        other.close()
    await engine.dispose()
