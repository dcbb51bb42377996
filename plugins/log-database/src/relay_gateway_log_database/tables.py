"""The tables: one row per request, what is searched or summed in columns, all of it as JSON."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
)
from sqlalchemy.dialects.postgresql import JSONB

SCHEMA_VERSION = 1

metadata = MetaData()

usage_schema = Table(
    "usage_schema",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("version", Integer, nullable=False),
)
"""One row: which version of the tables below the database has."""

TEXT_COLUMNS = (
    "client_request_id",
    "mode",
    "endpoint",
    "wire_format",
    "outcome",
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
    "currency",
    "instance",
)
"""Fields of the record, under their own names."""

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
"""Token meters that totals show, and their columns; others are in the JSON only."""

usage_records = Table(
    "usage_records",
    metadata,
    Column("request_id", Text, primary_key=True),
    Column("started_us", BigInteger, nullable=False, comment="microseconds since 1970, UTC"),
    *(Column(name, Text) for name in TEXT_COLUMNS),
    Column("status", BigInteger, nullable=False),
    Column("streamed", Boolean, nullable=False),
    Column("unpriced", Boolean, nullable=False),
    Column("duration_ms", Float(53), nullable=False),
    Column("ttft_ms", Float(53)),
    Column("cost_nanos", BigInteger),
    *(Column(name, BigInteger) for name in METERS.values()),
    Column("tags", JSON().with_variant(JSONB(), "postgresql"), nullable=False),
    Column("record", Text, nullable=False),
)

SELECTIVE = (
    "relay_key_id",
    "model_id",
    "host_id",
    "host_key_id",
    "policy_id",
    "provider_id",
    "client_request_id",
    "requested_model",
    "error_code",
    "outcome",
    "status",
)
"""Columns by which few of many rows are asked for."""

# SQLite writes every page that a transaction touches, whole and twice. Records arrive in about the
# order of this index, so its entries go to the last page, where an index per column would touch
# hundreds. A search reads the index from its end, and the rows only of what it finds.
Index(
    "usage_records_listed",
    usage_records.c.started_us,
    usage_records.c.request_id,
    *(usage_records.c[name] for name in (*SELECTIVE, "upstream_model")),
).ddl_if(dialect="sqlite")

Index("usage_records_started", usage_records.c.started_us, usage_records.c.request_id).ddl_if(
    dialect="postgresql"
)
for _name in SELECTIVE:
    Index(
        f"usage_records_{_name}",
        usage_records.c[_name],
        usage_records.c.started_us,
        usage_records.c.request_id,
    ).ddl_if(dialect="postgresql")
Index(
    "usage_records_tags",
    usage_records.c.tags,
    postgresql_using="gin",
    postgresql_ops={"tags": "jsonb_path_ops"},
).ddl_if(dialect="postgresql")
