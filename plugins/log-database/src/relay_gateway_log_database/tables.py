"""The tables: one narrow row per request, the names that rows refer to, and sums per hour and day.

A text that many requests share (ids of the catalog, models, endpoints, user agents) is stored once,
in ``usage_names``; rows hold its number.
"""

from __future__ import annotations

import uuid
from typing import Any

from sqlalchemy import (
    DDL,
    JSON,
    BigInteger,
    Boolean,
    Column,
    Dialect,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    event,
)
from sqlalchemy.types import TypeDecorator, TypeEngine

SCHEMA_VERSION = 3
HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US

metadata = MetaData()

ON_POSTGRESQL_BY_DAY = {"postgresql": {"partition_by": "RANGE (started_us)"}}
"""Options of a table that has partitions. Said in ``info``, and handed over when tables are made:
as options of SQLAlchemy's they would load that dialect for every database."""


class RequestId(TypeDecorator[str]):
    """The text of a UUID in its 16 bytes, on either database."""

    impl = LargeBinary
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """The type of the database at hand."""
        if dialect.name != "postgresql":
            return dialect.type_descriptor(LargeBinary(16))
        # Not a variant, which would load this dialect for every database.
        from sqlalchemy.dialects.postgresql import UUID

        return dialect.type_descriptor(UUID(as_uuid=False))

    def process_bind_param(self, value: str | None, dialect: Dialect) -> Any:
        """From the text; on PostgreSQL the driver takes it as it is."""
        if value is None or dialect.name == "postgresql":
            return value
        return uuid.UUID(value).bytes

    def process_result_value(self, value: Any, dialect: Dialect) -> str | None:
        """Back to the text."""
        if value is None or isinstance(value, str):
            return value
        return str(uuid.UUID(bytes=value) if isinstance(value, bytes) else value)


class Tags(TypeDecorator[Any]):
    """A JSON object of texts; binary on PostgreSQL, where it has an index."""

    impl = JSON
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """The type of the database at hand."""
        if dialect.name != "postgresql":
            return dialect.type_descriptor(JSON())
        from sqlalchemy.dialects.postgresql import JSONB

        return dialect.type_descriptor(JSONB())


usage_schema = Table(
    "usage_schema",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("version", Integer, nullable=False),
)
"""One row: which version of the tables below the database has."""

usage_names = Table(
    "usage_names",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("text", Text, nullable=False, unique=True),
    Column("used_on", Integer, nullable=False, comment="days since 1970, of the last use"),
    sqlite_autoincrement=True,  # the number of a name that is gone never becomes another's
)

NAMES = (
    "mode",
    "endpoint",
    "wire_format",
    "upstream_wire_format",
    "error_code",
    "relay_key_id",
    "policy_id",
    "provider_id",
    "model_id",
    "requested_model",
    "upstream_model",
    "host_id",
    "host_key_id",
    "usage_source",
    "finish_reason",
    "tier",
    "pricing_id",
    "currency",
    "user_agent",
    "instance",
)
"""Fields of the record that rows hold as numbers of ``usage_names``, under their own names."""

OUTCOMES = {
    "ok": 1,
    "upstream_error": 2,
    "rejected": 3,
    "cancelled": 4,
    "aborted": 5,
    "timeout": 6,
}
OK = OUTCOMES["ok"]

METERS = {
    "input": "tokens_input",
    "output": "tokens_output",
    "cacheRead": "tokens_cache_read",
    "cacheWrite": "tokens_cache_write",
    "cacheWrite1h": "tokens_cache_write_1h",
    "reasoning": "tokens_reasoning",
    "audioInput": "tokens_audio_input",
    "audioOutput": "tokens_audio_output",
}
"""Token meters that totals show, and their columns; others are in ``rest`` only."""

BYTES = ("bytes_in", "bytes_out")
TIMES = ("duration_ms", "ttfb_ms", "ttft_ms", "overhead_ms")
INLINE = ("client_request_id", "client_ip")

usage_rows = Table(
    "usage_rows",
    metadata,
    # Columns of eight bytes first: PostgreSQL pads what would not lie on its own size.
    Column("started_us", BigInteger, primary_key=True, comment="microseconds since 1970, UTC"),
    Column("request_id", RequestId, primary_key=True),
    *(Column(name, Float(53), nullable=name != "duration_ms") for name in TIMES),
    Column("cost_nanos", BigInteger),
    *(Column(name, BigInteger) for name in METERS.values()),
    *(Column(name, BigInteger, nullable=False) for name in BYTES),
    *(Column(name, Integer) for name in NAMES),
    Column("pricing_version", Integer),
    Column("status", Integer, nullable=False),
    Column("outcome", SmallInteger, nullable=False, comment=str(OUTCOMES)),
    Column("duration_bucket", SmallInteger, nullable=False),
    Column("ttft_bucket", SmallInteger),
    Column("streamed", Boolean, nullable=False),
    Column("unpriced", Boolean, nullable=False),
    *(Column(name, Text) for name in INLINE),
    Column("tags", Tags),
    Column("attempts", LargeBinary, comment="MessagePack, with numbers of names"),
    Column("rest", LargeBinary, comment="JSON of what the columns cannot hold"),
    # In the order of time on the disk: pages of the newest are together, and so are the expired.
    sqlite_with_rowid=False,
    info=ON_POSTGRESQL_BY_DAY,
)

FILTERED = ("relay_key_id", "policy_id", "model_id", "host_id", "host_key_id")
"""Columns whose values each have many rows that are asked for together."""
RARE = ("error_code", "client_request_id")
"""Columns that few rows have."""

Index("usage_rows_request", usage_rows.c.request_id, unique=True).ddl_if(dialect="sqlite")
_position = (usage_rows.c.started_us, usage_rows.c.request_id)
for _name in FILTERED:
    Index(f"usage_rows_{_name}", usage_rows.c[_name], *_position)
for _name in RARE:
    _present = usage_rows.c[_name].is_not(None)
    Index(
        f"usage_rows_{_name}",
        usage_rows.c[_name],
        *_position,
        sqlite_where=_present,
        info={"postgresql": {"where": _present}},
    )
Index(
    "usage_rows_failed",
    usage_rows.c.outcome,
    *_position,
    sqlite_where=usage_rows.c.outcome != OK,
    info={"postgresql": {"where": usage_rows.c.outcome != OK}},
)
Index(
    "usage_rows_status",
    usage_rows.c.status,
    *_position,
    sqlite_where=usage_rows.c.status != 200,
    info={"postgresql": {"where": usage_rows.c.status != 200}},
)
# Not Index objects: their options would load the dialect of PostgreSQL for every database.
for _statement in (
    "CREATE INDEX usage_rows_request ON usage_rows (request_id)",
    "CREATE INDEX usage_rows_tags ON usage_rows USING gin (tags jsonb_path_ops)",
    "CREATE TABLE usage_rows_other PARTITION OF usage_rows DEFAULT",
):
    event.listen(
        usage_rows,
        "after_create",
        DDL(_statement).execute_if(dialect="postgresql"),  # type: ignore[no-untyped-call]
    )

DIMENSIONS = 4
"""Columns of a rollup for the dimensions of its view: ``d1``, ``d2``, …; 0 is no value."""
SUMMED = (*METERS.values(), "cost_nanos")
COUNTED = ("requests", "errors", "unpriced")
TIMED = ("duration", "ttft")


def _rollup(name: str, unit: str) -> Table:
    keys = ["view", "step", *(f"d{n}" for n in range(1, DIMENSIONS + 1)), "currency"]
    return Table(
        name,
        metadata,
        *(
            Column(
                key,
                SmallInteger if key == "view" else Integer,
                primary_key=True,
                autoincrement=False,
                comment=f"{unit} since 1970" if key == "step" else None,
            )
            for key in keys
        ),
        *(Column(counted, BigInteger, nullable=False) for counted in COUNTED),
        *(Column(summed, BigInteger) for summed in SUMMED),
        *(Column(f"{kind}_sum", Float(53)) for kind in TIMED),
        *(Column(f"{kind}_histogram", LargeBinary) for kind in TIMED),
        sqlite_with_rowid=False,
    )


usage_hourly = _rollup("usage_hourly", "hours")
usage_daily = _rollup("usage_daily", "days")
