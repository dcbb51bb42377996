"""Records of version 1, which had one row of JSON each: moved into the tables of today, in steps.

They become part of lists and totals as they are moved. A step that is cut off is done again: a
record that is there already is not added a second time. The emptied table stays: an instance of
the version before may still be running, and what it writes is moved the next time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import msgspec
from sqlalchemy import inspect, text
from sqlalchemy.ext.asyncio import AsyncEngine

from relay_gateway.plugin import UsageRecord

STEP = 500
TABLE = "usage_records"
NEWEST = text(f"SELECT record FROM {TABLE} ORDER BY started_us DESC LIMIT {STEP}")  # noqa: S608
FORGET = text(f"DELETE FROM {TABLE} WHERE request_id = :id")  # noqa: S608 - a constant
_decoder = msgspec.json.Decoder(UsageRecord)

Write = Callable[[Sequence[UsageRecord]], Awaitable[None]]


async def move_some(engine: AsyncEngine, write: Write) -> int:
    """Moves some records, newest first; returns how many, 0 when there are none."""
    async with engine.connect() as connection:
        if not await connection.run_sync(lambda bound: inspect(bound).has_table(TABLE)):
            return 0
        found = (await connection.execute(NEWEST)).all()
    records = [_decoder.decode(row.record) for row in found]
    if records:
        await write(records)
        async with engine.begin() as connection:
            await connection.execute(FORGET, [{"id": one.request_id} for one in records])
    return len(records)
