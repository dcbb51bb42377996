"""The tables of payloads: one row per request, all of it compressed in one column."""

from __future__ import annotations

from sqlalchemy import (
    DDL,
    BigInteger,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    event,
)

from relay_gateway_log_database.tables import ON_POSTGRESQL_BY_DAY, RequestId

SCHEMA_VERSION = 1

metadata = MetaData()

payload_schema = Table(
    "payload_schema",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("version", Integer, nullable=False),
)
"""One row: which version of the table below the database has."""

payload_records = Table(
    "payload_records",
    metadata,
    Column("request_id", RequestId, primary_key=True),
    Column("started_us", BigInteger, primary_key=True, comment="microseconds since 1970, UTC"),
    Column("record", LargeBinary, nullable=False, comment="MessagePack, compressed by zlib"),
    info=ON_POSTGRESQL_BY_DAY,
)
Index("payload_records_started", payload_records.c.started_us)
for _statement in (
    # Compressed already: the server need not try.
    "ALTER TABLE payload_records ALTER COLUMN record SET STORAGE EXTERNAL",
    "CREATE TABLE payload_records_other PARTITION OF payload_records DEFAULT",
):
    event.listen(
        payload_records,
        "after_create",
        DDL(_statement).execute_if(dialect="postgresql"),  # type: ignore[no-untyped-call]
    )
