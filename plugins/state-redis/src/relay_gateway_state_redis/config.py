"""Where Redis is and how it is asked: the section of ``relay.toml``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field, SecretStr, field_validator, model_validator

from relay_gateway.plugin import PluginConfig
from relay_gateway_state_redis.address import parse_address


class RedisConfig(PluginConfig):
    """``[state_stores.redis]``; ``url`` is the value of ``RELAY_STATE_URL``."""

    # What a validation error quotes of its input could hold a password.
    model_config = ConfigDict(hide_input_in_errors=True)

    url: SecretStr = Field(
        default=SecretStr("redis://127.0.0.1:6379"),
        description="`redis://HOST:PORT/DB`, `redis+sentinel://HOST:PORT,HOST:PORT/SERVICE` or "
        "`redis+cluster://HOST:PORT,HOST:PORT`; `rediss` in place of `redis` means TLS. "
        "`RELAY_STATE_URL` sets it. Unset: `redis://127.0.0.1:6379`.",
    )
    username: str | None = Field(
        default=None, min_length=1, description="Account of the servers. Unset: that of the URL."
    )
    password: SecretStr | None = Field(
        default=None, description="Its password. Unset: one of the next two, else that of the URL."
    )
    value_from: dict[str, Any] | None = Field(
        default=None,
        description="A reference to the password in a secret backend, as host keys have them. It "
        "is asked for again when it is refused.",
    )
    password_file: Path | None = Field(
        default=None,
        description="A file with the password, read for each connection, so that it may change.",
    )
    sentinel_username: str | None = Field(
        default=None, min_length=1, description="Account of the sentinels, where they ask for one."
    )
    sentinel_password: SecretStr | None = Field(
        default=None, description="Password of the sentinels, where they ask for one."
    )
    ca_file: Path | None = Field(
        default=None,
        description="Certificates (PEM) that the servers' are checked against, in place of the "
        "usual.",
    )
    cert_file: Path | None = Field(
        default=None, description="The gateway's own certificate (PEM), for servers that ask."
    )
    key_file: Path | None = Field(
        default=None, description="Its key (PEM). Unset: the key is in `cert_file`."
    )
    namespace: str = Field(
        default="relay",
        pattern=r"^[A-Za-z0-9._-]{1,64}$",
        description="All keys begin with `{NAMESPACE}:`. Gateways with the same one share limits.",
    )
    max_connections: int = Field(
        default=4, ge=1, le=256, description="Connections of one process; each carries batches."
    )
    timeout_seconds: float = Field(
        default=1.0,
        gt=0,
        le=60,
        allow_inf_nan=False,
        description="Silence after which a connection is given up. No request waits so long: "
        "that is bounded by the gateway.",
    )

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: SecretStr) -> SecretStr:
        parse_address(url.get_secret_value())
        return url

    @model_validator(mode="after")
    def _check_files(self) -> RedisConfig:
        if self.key_file is not None and self.cert_file is None:
            raise ValueError("key_file is the key of cert_file, which is missing")
        if sum(one is not None for one in (self.password, self.value_from, self.password_file)) > 1:
            raise ValueError("password, value_from and password_file exclude each other: set one")
        if self.sentinel_username is not None and self.sentinel_password is None:
            raise ValueError("sentinel_username needs sentinel_password")
        return self
