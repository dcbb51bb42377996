"""Where usage and payloads are kept, and for how long: the sections of ``relay.toml``."""

from __future__ import annotations

from typing import Self

from pydantic import ConfigDict, Field, SecretStr, field_validator, model_validator

from relay_gateway.plugin import PluginConfig, PluginContext

USAGE_FILE = "usage.sqlite3"
PAYLOADS_FILE = "payloads.sqlite3"
SQLITE, POSTGRESQL = ("sqlite:",), ("postgresql:", "postgres:")
MOST_DAYS = 36_500
DAY_SECONDS = 86_400


class DatabaseConfig(PluginConfig):
    """What both sections have."""

    # What a validation error quotes of its input could hold a password.
    model_config = ConfigDict(hide_input_in_errors=True)

    url: SecretStr | None = None

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: SecretStr | None) -> SecretStr | None:
        if url is None or is_postgresql(url.get_secret_value()):
            return url
        value = url.get_secret_value()
        if not value.startswith("sqlite:///") or value in ("sqlite:///", "sqlite:///:memory:"):
            raise ValueError("must be sqlite:///FILE or postgresql://USER@HOST/DATABASE")
        return url


class DatabaseSinkConfig(DatabaseConfig):
    """``[usage_sinks.database]``."""

    url: SecretStr | None = Field(
        default=None,
        description="`sqlite:///FILE` or `postgresql://…`. Unset: the gateway's own database where"
        " that is PostgreSQL, else `usage.sqlite3` in the data directory.",
    )
    retention_days: int | None = Field(
        default=None,
        ge=1,
        le=MOST_DAYS,
        description="How many whole days (UTC) before today records are kept; unset keeps them.",
    )
    rollup_retention_days: int | None = Field(
        default=None,
        ge=1,
        le=MOST_DAYS,
        description="The same for the sums per hour and day, which need be kept as long as records"
        " at least; unset keeps them.",
    )

    @model_validator(mode="after")
    def _sums_outlive_records(self) -> Self:
        rows, sums = self.retention_days, self.rollup_retention_days
        if sums is not None and (rows is None or rows > sums):
            raise ValueError(
                f"rollup_retention_days is {sums} and retention_days is {rows or 'unset'}: totals"
                " of records come from the sums, which must be kept as long at least"
            )
        return self


class DatabasePayloadsConfig(DatabaseConfig):
    """``[payload_loggers.database]``."""

    url: SecretStr | None = Field(
        default=None,
        description="`sqlite:///FILE` or `postgresql://…`. Unset: the gateway's own database where"
        " that is PostgreSQL, else `payloads.sqlite3` in the data directory.",
    )
    retention_days: int = Field(
        default=7,
        ge=1,
        le=MOST_DAYS,
        description="How many whole days (UTC) before today payloads are kept.",
    )


def is_postgresql(url: str) -> bool:
    """Whether ``url`` names a PostgreSQL database."""
    return url.startswith(POSTGRESQL)


def locate(config: DatabaseConfig, context: PluginContext, file_name: str) -> str:
    """Address of the database: on SQLite a file of its own, because SQLite has one writer at a
    time, and neither usage nor payloads must hold up the catalog."""
    if config.url is not None:
        return config.url.get_secret_value()
    if is_postgresql(context.database_url):
        return context.database_url
    return f"sqlite:///{context.data_dir.absolute() / file_name}"


def first_day(now: float, days: int) -> int:
    """The oldest day that is kept, counted since 1970."""
    return int(now) // DAY_SECONDS - days
