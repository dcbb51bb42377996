"""``Settings``: every setting, its default and what it means."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ByteSize, ConfigDict, Field, field_validator

from relay_gateway.settings.fields import (
    Address,
    DatabaseUrl,
    HeaderPrefixes,
    HostNames,
    Names,
    Networks,
    Origins,
    PluginSection,
    Port,
    PortOrOff,
    Secrets,
    SecretSetting,
    StateUrl,
)

PLUGIN_SECTIONS = (
    "secret_backends",
    "upstream_providers",
    "usage_sinks",
    "payload_loggers",
    "state_stores",
    "guards",
)
"""Tables of ``relay.toml`` that hold one table per plugin."""
TABLES = (*PLUGIN_SECTIONS, "guarding", "plugins", "spool", "usage_logging", "users")
"""Settings that are tables of ``relay.toml`` and have no variable."""


class PluginSelection(BaseModel):
    """``[plugins]``: which installed plugins take part."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    enabled: Names | None = Field(
        default=None,
        description="Distributions or plugins that may be imported, each with an optional "
        "`==version` and an optional ` sha256:…`, the digest of its files; unset: every installed "
        "one.",
    )


class LoginUser(BaseModel):
    """``[[users]]``: one more user who may log in to the control plane."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, arbitrary_types_allowed=True
    )

    username: str = Field(min_length=1, max_length=200, description="Name to log in with.")
    password: SecretSetting = Field(
        description="Its bcrypt hash, from `relay-gateway users hash-password`."
    )


class UsageLogging(BaseModel):
    """``[usage_logging]``: where usage records go."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    sinks: Names = Field(
        default=("database",),
        description="Names of the usage sinks that receive every record; the first that can read "
        "serves `/logs` and `/usage`.",
    )


class GuardingSettings(BaseModel):
    """``[guarding]``: which guards stand before hosts and callers."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    order: Names = Field(
        default=(),
        description="Names of the guards that are asked, in this order; none is asked that is not "
        "here. Changed by a reload of the plugins, without a restart.",
    )

    @field_validator("order")
    @classmethod
    def _once(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(value)) < len(value):
            raise ValueError("names a guard more than once")
        return value


class SpoolSettings(BaseModel):
    """``[spool]``: the files in which usage records and payloads wait for their sinks."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    sync: Literal["always", "interval", "never"] = Field(
        default="interval",
        description="When the disk is made to hold what was written, so that a loss of power does "
        "not take it: with each record (each request then waits for the disk), every 200 ms, or "
        "when the operating system likes. A killed process loses nothing in any case.",
    )
    max_bytes: ByteSize = Field(
        default=ByteSize(1024**3),
        ge=1024 * 1024,
        description="How large the spool of one process may become while sinks do not take what "
        "is in it, in bytes or with a unit; beyond that the oldest payloads are given up first, "
        "then the oldest usage records.",
    )


def _embedded_database(validated: dict[str, Any]) -> str:
    return f"sqlite:///{validated['data_dir'] / 'relay.sqlite3'}"


class Settings(BaseModel):
    """Everything the gateway is told from outside, except the catalog. Frozen.

    The constructor takes values and reads nothing else; :func:`.load_settings` is what looks at the
    file and the environment.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, arbitrary_types_allowed=True
    )

    host: Address = Field(
        default="127.0.0.1", description="Address on which the inference plane listens."
    )
    port: Port = Field(default=8080, description="Port of the inference plane; 0 takes a free one.")
    control_host: Address = Field(
        default="127.0.0.1",
        description="Address on which the control plane listens. Keep it off the public internet.",
    )
    control_port: PortOrOff = Field(
        default=8081,
        description="Port of the control plane; `off` turns it off (inference-only instance).",
    )
    workers: int = Field(
        default=1,
        ge=1,
        le=256,
        description="Inference processes that share the port. With more than one, the control "
        "plane runs in a process of its own.",
    )
    data_dir: Path = Field(
        default=Path("relay-data"),
        validate_default=True,
        description="Directory of the embedded database and the generated secrets "
        "(mode 0700, files 0600).",
    )
    database_url: DatabaseUrl = Field(
        default_factory=_embedded_database,
        repr=False,
        description="`sqlite:///path` or `postgresql://…`; by default a SQLite file in the data "
        "directory.",
    )
    state_url: StateUrl = Field(
        default="memory://",
        repr=False,
        description="Where limits are counted: `memory://` in this instance, by all of its workers "
        "together, or the URL of a state store whose plugin is installed, which instances share.",
    )
    max_snapshot_age: float = Field(
        default=0.0,
        ge=0,
        allow_inf_nan=False,
        description="After how many seconds without word from the database inference is refused "
        "(503 `snapshot_too_old`); 0 serves the last good catalog for as long as it takes.",
    )
    master_key: Secrets = Field(
        default=(),
        description="32 bytes in standard base64. A comma-separated list is a key ring: the first "
        "seals, all of them open. Generated into the data directory on SQLite, none on PostgreSQL.",
    )
    admin_token: SecretSetting | None = Field(
        default=None,
        description="Bearer token of the control plane. Generated into the data directory on "
        "SQLite; none on PostgreSQL, which disables it.",
    )
    admin_username: str = Field(
        default="admin",
        min_length=1,
        max_length=200,
        description="Name of the user who may log in to the control plane with `admin_password`.",
    )
    admin_password: SecretSetting | None = Field(
        default=None,
        description="Its bcrypt hash, from `relay-gateway users hash-password`. Plain text works "
        "on a loopback `control_host` and is deprecated. Without one nobody of that name logs in.",
    )
    audit_retention_days: int = Field(
        default=0,
        ge=0,
        le=36500,
        description="Days after which records leave the audit log; 0 keeps all of them.",
    )
    cors_origins: Origins = Field(
        default=(),
        description="Origins of other sites whose pages may call the control plane, exactly as "
        "browsers send them.",
    )
    cookie_secure: bool | None = Field(
        default=None,
        description="Whether browsers may send the session cookie over HTTPS only. By default "
        "they may, unless `control_host` is a loopback address.",
    )
    allowed_hosts: HostNames = Field(
        default=(),
        description="Host names under which the control plane answers (`*.example.org`, `*`). By "
        "default any, but only addresses and `localhost` when `control_host` is a loopback "
        "address.",
    )
    metrics_public: bool = Field(
        default=False,
        description="Whether `GET /metrics` of the control plane needs no authentication.",
    )
    header_prefixes: HeaderPrefixes = Field(
        default=("X-Relay-", "X-SVC-"),
        description="Accepted prefixes of the gateway's own headers; answers use the first.",
    )
    trusted_proxies: Networks = Field(
        default=(),
        description="CIDRs of proxies in front of the gateway whose `X-Forwarded-For` is believed.",
    )
    max_request_bytes: ByteSize = Field(
        default=ByteSize(64 * 1024 * 1024),
        gt=0,
        description="Limit of an inference request body, in bytes or with a unit (`64MiB`); a "
        "larger one is answered 413.",
    )
    body_memory_bytes: ByteSize = Field(
        default=ByteSize(64 * 1024 * 1024),
        gt=0,
        description="How much request bodies above 256 KiB may hold together in each process until "
        "their answers begin, in bytes or with a unit; later ones wait for room, for a minute at "
        "most (503 `overloaded`).",
    )
    payload_memory_bytes: ByteSize = Field(
        default=ByteSize(64 * 1024 * 1024),
        gt=0,
        description="How much the payloads that are being captured may hold together in each "
        "process, in bytes or with a unit; beyond that payloads are given up, requests are not.",
    )
    max_connections: int | None = Field(
        default=None,
        ge=1,
        description="Connections of callers that each process holds at a time; one more is "
        "answered 503 and closed. By default as many as there are files for, see `ulimit -n`.",
    )
    max_connections_per_address: int = Field(
        default=8192,
        ge=1,
        description="How many of them may come from one address, or one IPv6 network of 64 bits; "
        "one more is answered 429 and closed. `trusted_proxies` are exempt.",
    )
    egress_deny: Networks = Field(
        default=(),
        description="CIDRs that are never dialled, besides the link-local, metadata, multicast and "
        "unspecified addresses, which are always refused.",
    )
    shutdown_seconds: float = Field(
        default=30.0,
        ge=0,
        le=3600,
        allow_inf_nan=False,
        description="How many seconds requests in flight may take after SIGTERM.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least severity that is logged."
    )
    log_format: Literal["auto", "console", "json"] = Field(
        default="auto", description="`auto` is console on a terminal, else JSON lines."
    )
    plugins: PluginSelection = Field(
        default=PluginSelection(), description="Which installed plugins take part."
    )
    usage_logging: UsageLogging = Field(
        default=UsageLogging(), description="Where usage records go."
    )
    guarding: GuardingSettings = Field(
        default=GuardingSettings(), description="Which guards stand before hosts and callers."
    )
    spool: SpoolSettings = Field(
        default=SpoolSettings(), description="How records wait for their sinks."
    )
    users: tuple[LoginUser, ...] = Field(
        default=(), repr=False, description="More users who may log in to the control plane."
    )
    secret_backends: PluginSection = Field(
        default={}, repr=False, description="One table for each secret backend."
    )
    upstream_providers: PluginSection = Field(
        default={}, repr=False, description="One table for each upstream provider."
    )
    usage_sinks: PluginSection = Field(
        default={}, repr=False, description="One table for each usage sink."
    )
    payload_loggers: PluginSection = Field(
        default={}, repr=False, description="One table for each payload logger."
    )
    state_stores: PluginSection = Field(
        default={}, repr=False, description="One table for each state store."
    )
    guards: PluginSection = Field(default={}, repr=False, description="One table for each guard.")

    @field_validator("data_dir")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return value.expanduser().absolute()

    @property
    def database_file(self) -> Path | None:
        """The file of the embedded SQLite database, ``None`` with PostgreSQL."""
        scheme, _, path = self.database_url.partition(":///")
        return Path(path) if scheme == "sqlite" else None

    def plugin_sections(self) -> dict[str, PluginSection]:
        """The plugins' own tables: kind of section → name of plugin → its keys and values."""
        return {name: getattr(self, name) for name in PLUGIN_SECTIONS}
