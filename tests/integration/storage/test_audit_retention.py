"""An audit log whose oldest part is pruned can still be verified, and only pruning is pruning."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from relay_gateway.server.audit_upkeep import AuditUpkeep, checkpoint_signer
from relay_gateway.storage import AuditLog
from relay_gateway.storage.audit import AuditEvent, AuditQuery
from relay_gateway.storage.audit_retention import AuditRetention
from relay_gateway.testing.clock import FakeClock
from relay_gateway.testing.context import master_key

OLD, NEW = master_key("old"), master_key("new")
DROP_UPDATE_TRIGGER = {
    "sqlite": "DROP TRIGGER audit_records_no_update",
    "postgresql": "DROP TRIGGER audit_records_append_only ON audit_records",
}
DROP_DELETE_TRIGGER = {
    "sqlite": "DROP TRIGGER audit_records_no_delete",
    "postgresql": "DROP TRIGGER audit_records_no_delete ON audit_records",
}


@pytest.fixture
async def log(engine: AsyncEngine) -> AuditLog:
    log = AuditLog(engine)
    for number in range(10):
        await log.record(AuditEvent(action="login", kind="session", target=f"user-{number}"))
    return log


def retention(engine: AsyncEngine) -> AuditRetention:
    return AuditRetention(engine, checkpoint_signer([OLD]))


async def occurred(log: AuditLog, sequence: int) -> str:
    records = await log.page(AuditQuery())
    return next(item.occurred_at for item in records if item.sequence == sequence)


async def verified(log: AuditLog) -> tuple[int, int, str | None]:
    report = await log.verify(checkpoint_signer([NEW, OLD]).accepts)
    return report.pruned, report.records, report.problem


async def run(engine: AsyncEngine, *statements: str) -> None:
    async with engine.begin() as connection:
        for statement in statements:
            await connection.execute(text(statement))


async def test_t59_what_stays_of_a_pruned_log_is_verified(
    engine: AsyncEngine, log: AuditLog
) -> None:
    before = await occurred(log, 7)
    assert await retention(engine).prune(before) == 6
    assert await verified(log) == (6, 5, None)
    newest, *rest = await log.page(AuditQuery())
    assert (newest.action, newest.detail) == ("prune", {"through": 6, "records": 6})
    assert [item.sequence for item in rest] == [10, 9, 8, 7]
    assert await retention(engine).prune(before) == 0
    assert len(await log.page(AuditQuery())) == 5


async def test_a_log_is_pruned_in_portions_that_each_leave_a_record(
    engine: AsyncEngine, log: AuditLog
) -> None:
    before = await occurred(log, 10)
    assert await retention(engine).prune(before, portion=4) == 9
    records = await log.page(AuditQuery(equal={"action": "prune"}))
    assert [item.detail["through"] for item in records] == [9, 8, 4]
    assert await verified(log) == (9, 4, None)


async def test_pruners_at_once_prune_once(engine: AsyncEngine, log: AuditLog) -> None:
    before = await occurred(log, 9)
    pruned = await asyncio.gather(*(retention(engine).prune(before) for _ in range(4)))
    assert sorted(pruned) == [0, 0, 0, 8]
    assert await verified(log) == (8, 3, None)


async def test_t77_a_clock_that_was_set_back_takes_no_newer_record_away(
    engine: AsyncEngine, log: AuditLog
) -> None:
    # The third record looks newer than all after it, so these are kept with it.
    before = await occurred(log, 9)
    await run(
        engine,
        DROP_UPDATE_TRIGGER[engine.dialect.name],
        "UPDATE audit_records SET occurred_at = '9999' WHERE sequence = 3",
    )
    assert await retention(engine).prune(before) == 2


@pytest.mark.parametrize(
    ("statements", "problem"),
    [
        (["DELETE FROM audit_records WHERE sequence <= 8"], "record 7 is missing"),
        (
            [
                "UPDATE audit_checkpoint SET sequence = 8",
                "DELETE FROM audit_records WHERE sequence <= 8",
            ],
            "deleted by somebody without the master key",
        ),
        (["UPDATE audit_checkpoint SET signature = NULL"], "without the master key"),
        (["UPDATE audit_checkpoint SET sequence = 5"], "without the master key"),
        (["DELETE FROM audit_records"], "newest records are gone"),
    ],
)
async def test_t59_whoever_deletes_past_the_checkpoint_is_found_out(
    engine: AsyncEngine, log: AuditLog, statements: list[str], problem: str
) -> None:
    await retention(engine).prune(await occurred(log, 7))
    await run(engine, DROP_DELETE_TRIGGER[engine.dialect.name], *statements)
    assert problem in str((await verified(log))[2])


async def test_t59_only_what_was_pruned_can_be_deleted(engine: AsyncEngine, log: AuditLog) -> None:
    await retention(engine).prune(await occurred(log, 7))
    with pytest.raises(DBAPIError, match="append-only"):
        await run(engine, "DELETE FROM audit_records WHERE sequence = 7")
    await run(engine, "DELETE FROM audit_records WHERE sequence <= 6")


async def test_t63_a_checkpoint_survives_the_rotation_of_the_master_key(
    engine: AsyncEngine, log: AuditLog
) -> None:
    await retention(engine).prune(await occurred(log, 7))
    alone = checkpoint_signer([NEW]).accepts
    assert (await log.verify(alone)).problem is not None
    await AuditUpkeep(engine, [NEW, OLD], 0, FakeClock()).tidy()
    assert (await log.verify(alone)).problem is None
    # A signature that is nobody's is not made good.
    await run(engine, "UPDATE audit_checkpoint SET signature = 'forged'")
    await AuditUpkeep(engine, [NEW, OLD], 0, FakeClock()).tidy()
    assert (await log.verify(alone)).problem is not None


async def test_records_leave_after_so_many_days(engine: AsyncEngine, log: AuditLog) -> None:
    clock = FakeClock(datetime.now(UTC).timestamp())
    upkeep = AuditUpkeep(engine, [OLD], 30, clock)
    assert await upkeep.tidy() == 0
    clock.advance(31 * 86_400)
    assert await upkeep.tidy() == 10
    assert await verified(log) == (10, 1, None)


async def test_without_a_master_key_nothing_is_pruned(
    engine: AsyncEngine, log: AuditLog, caplog: pytest.LogCaptureFixture
) -> None:
    await AuditUpkeep(engine, [], 1, FakeClock()).run()
    assert "audit_retention_days is not obeyed" in caplog.text
    assert len(await log.page(AuditQuery())) == 10
