"""Last uses of relay keys: noted per request, written coarsely, never lost to an outage."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from relay_gateway.delivery.last_uses import LastUses
from relay_gateway.errors import StorageUnavailableError
from relay_gateway.plugin import UsageRecord


class Store:
    """Keeps what it is given, unless it is down."""

    def __init__(self) -> None:
        self.written: list[dict[str, str]] = []
        self.down = False
        self.defect = False
        self.hangs = False
        self.asked = asyncio.Event()

    async def merge(self, uses: Mapping[str, str]) -> None:
        self.asked.set()
        if self.down:
            raise StorageUnavailableError("the database cannot be asked right now")
        if self.defect:
            self.defect = False
            raise KeyError("defect")
        if self.hangs:
            await asyncio.Event().wait()
        self.written.append(dict(uses))


@pytest.fixture
async def store() -> Store:
    return Store()


def record(key_id: str | None, moment: str) -> UsageRecord:
    return UsageRecord(request_id="r", started_at=f"2030-01-01T{moment}Z", relay_key_id=key_id)


def note(uses: LastUses, key_id: str | None, *moments: str) -> None:
    for moment in moments:
        uses.note(record(key_id, moment))


async def test_a_use_is_written_once_per_minute_and_key(store: Store) -> None:
    uses = LastUses(store)
    note(uses, "a", "10:00:01.500", "10:00:59.000")
    note(uses, "b", "10:00:30.000")
    note(uses, None, "10:00:31.000")
    await uses.write()
    await uses.write()
    note(uses, "a", "10:00:59.900")
    await uses.write()
    note(uses, "a", "10:01:00.000")
    await uses.write()
    at, later = "2030-01-01T10:00:00Z", "2030-01-01T10:01:00Z"
    assert store.written == [{"a": at, "b": at}, {"a": later}]


async def test_a_long_request_that_ends_late_does_not_turn_time_back(store: Store) -> None:
    uses = LastUses(store)
    note(uses, "a", "10:05:00.000", "10:00:00.000")
    await uses.write()
    note(uses, "a", "10:01:00.000")
    await uses.write()
    assert store.written == [{"a": "2030-01-01T10:05:00Z"}]


async def test_a_database_that_is_down_delays_and_loses_nothing(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    uses = LastUses(store)
    store.down = True
    for minute in range(3):
        note(uses, "a", f"10:0{minute}:00.000")
        await uses.write()
    note(uses, "b", "10:02:00.000")
    store.down = False
    await uses.write()
    at = "2030-01-01T10:02:00Z"
    assert store.written == [{"a": at, "b": at}]
    assert caplog.text.count("are written later") == 1


async def test_it_writes_by_itself_and_survives_a_defect(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    uses = LastUses(store, write_seconds=0.001)
    store.defect = True
    note(uses, "a", "10:00:00.000")
    uses.start()
    await asyncio.wait_for(store.asked.wait(), 5)
    store.asked.clear()
    note(uses, "b", "10:00:00.000")
    await asyncio.wait_for(store.asked.wait(), 5)
    await uses.aclose(1)
    at = "2030-01-01T10:00:00Z"
    assert store.written == [{"a": at, "b": at}]
    assert "could not be written" in caplog.text


async def test_the_end_writes_what_is_left_and_does_not_wait_for_ever(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    uses = LastUses(store)
    note(uses, "a", "10:00:00.000")
    uses.start()
    await uses.aclose(5)
    assert store.written == [{"a": "2030-01-01T10:00:00Z"}]
    store.hangs = True
    note(uses, "a", "10:01:00.000")
    await uses.aclose(0.01)
    assert "were not written before the end" in caplog.text
