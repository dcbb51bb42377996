"""Where usage records are kept: the section of ``relay.toml`` and what it comes to."""

from __future__ import annotations

from pydantic import ConfigDict, SecretStr, field_validator

from relay_gateway.plugin import PluginConfig, PluginContext

FILE_NAME = "usage.sqlite3"
SQLITE, POSTGRESQL = ("sqlite:",), ("postgresql:", "postgres:")


class DatabaseSinkConfig(PluginConfig):
    """``[usage_sinks.database]``."""

    # What a validation error quotes of its input could hold a password.
    model_config = ConfigDict(hide_input_in_errors=True)

    url: SecretStr | None = None
    """``sqlite:///FILE`` or ``postgresql://…``. Unset: the gateway's own database where that is
    PostgreSQL, else ``usage.sqlite3`` in the data directory: SQLite has one writer at a time, and
    usage must not hold up the catalog."""

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: SecretStr | None) -> SecretStr | None:
        if url is None or is_postgresql(url.get_secret_value()):
            return url
        value = url.get_secret_value()
        if not value.startswith("sqlite:///") or value in ("sqlite:///", "sqlite:///:memory:"):
            raise ValueError("must be sqlite:///FILE or postgresql://USER@HOST/DATABASE")
        return url


def is_postgresql(url: str) -> bool:
    """Whether ``url`` names a PostgreSQL database."""
    return url.startswith(POSTGRESQL)


def locate(config: DatabaseSinkConfig, context: PluginContext) -> str:
    """Address of the database for usage records."""
    if config.url is not None:
        return config.url.get_secret_value()
    if is_postgresql(context.database_url):
        return context.database_url
    return f"sqlite:///{context.data_dir.absolute() / FILE_NAME}"
