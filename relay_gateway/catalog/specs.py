"""Field models of the eight catalog kinds, as the control plane reads and writes them.

``valueFrom`` and ``adapterConfig`` are plain objects here; the control plane narrows them
to the models of the installed plugins.
"""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit
from uuid import UUID

from pydantic import AfterValidator, AwareDatetime, Field, model_validator

from relay_gateway.ids import is_id, is_slug
from relay_gateway.plugin.base import CatalogModel

MAX_MODEL_NAME = 256


@lru_cache(maxsize=4096)  # a policy is named by each of its relay keys
def _check_id(value: str) -> str:
    if not is_id(value):
        raise ValueError("must be the id (a UUID) of an existing entity")
    return str(UUID(value))


def _check_visible_ascii(value: str) -> str:
    if not all("!" <= character <= "~" for character in value):
        raise ValueError("must consist of visible ASCII characters")
    return value


def _check_name(value: str) -> str:
    if "*" in value:
        raise ValueError("must not contain '*'; patterns are for aliases")
    return _check_visible_ascii(value)


def _check_alias(value: str) -> str:
    if "*" in value[:-1] or value == "*":
        raise ValueError("'*' may only stand at the end of a longer name")
    return _check_visible_ascii(value)


def _check_reference(value: str) -> str:
    _check_visible_ascii(value)
    base, at, host = value.rpartition("@")
    if not at:
        base = value
    elif not is_slug(host):
        raise ValueError("must name a host by its slug after '@'")
    if "*" in base and value != "*":
        raise ValueError("'*' stands alone and means every model; other patterns are not supported")
    if base.startswith("/") or base.endswith("/"):
        raise ValueError("must have a provider before '/' and a model after it")
    return value


def _check_header_name(value: str) -> str:
    if value.lower() in GATEWAY_HEADERS:
        raise ValueError("is set by the gateway itself; a credential belongs into a host key")
    return value


def _check_distinct_headers(value: dict[str, str]) -> dict[str, str]:
    lowered = [name.lower() for name in value]
    repeated = sorted({name for name in lowered if lowered.count(name) > 1})
    if repeated:
        raise ValueError(f"names differ only in case: {', '.join(repeated)}")
    return value


def _to_utc(value: datetime) -> datetime:
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise ValueError("lies outside the years 1 to 9999 in UTC") from None


def _check_header_value(value: str) -> str:
    if not value.isascii() or not value.isprintable() or value != value.strip():
        raise ValueError("must be printable ASCII without spaces at its ends")
    return value


def _check_http_url(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be an http:// or https:// address with a host")
    if parts.username is not None or parts.password is not None:
        raise ValueError("must not contain a user name or password")
    if parts.query or parts.fragment:
        raise ValueError("must not have a query or fragment")
    if any(character <= " " or character > "~" or character == "\\" for character in value):
        raise ValueError("must consist of visible ASCII characters without backslashes")
    try:
        if parts.port == 0:
            raise ValueError("port 0 cannot be dialled")
    except ValueError as error:
        raise ValueError("must have a port from 1 to 65535") from error
    return value.rstrip("/")


def _check_cidr(value: str) -> str:
    return str(ipaddress.ip_network(value, strict=False))


def _check_path_prefix(value: str) -> str:
    if not is_slug(value) or value in RESERVED_PREFIXES:
        raise ValueError("must be a DNS label that no path of the gateway begins with")
    return value


RESERVED_PREFIXES = frozenset({"v1", "v1beta", "healthz", "readyz", "metrics", "ui"})
GATEWAY_HEADERS = frozenset(
    {
        "authorization",
        "connection",
        "content-length",
        "cookie",
        "expect",
        "host",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers that a host's static ``headers`` may not set: framing is the gateway's, credentials are
host keys."""
EntityId = Annotated[str, AfterValidator(_check_id)]
ModelName = Annotated[
    str, Field(min_length=1, max_length=MAX_MODEL_NAME), AfterValidator(_check_name)
]
ModelAlias = Annotated[
    str, Field(min_length=1, max_length=MAX_MODEL_NAME), AfterValidator(_check_alias)
]
HttpUrl = Annotated[str, Field(max_length=2048), AfterValidator(_check_http_url)]
HeaderValue = Annotated[str, Field(max_length=4096), AfterValidator(_check_header_value)]
HeaderName = Annotated[
    str,
    Field(pattern=r"^[A-Za-z0-9!#$%&'*+.^`|~-]+$", max_length=128),
    AfterValidator(_check_header_name),
]
Instant = Annotated[AwareDatetime, AfterValidator(_to_utc)]
"""A moment with its offset from UTC, kept in UTC."""
Cidr = Annotated[str, AfterValidator(_check_cidr)]
Tags = Annotated[
    dict[
        Annotated[str, Field(min_length=1, max_length=64)],
        Annotated[str, Field(max_length=256)],
    ],
    Field(max_length=16),
]
Reference = Annotated[str, Field(min_length=1, max_length=600), AfterValidator(_check_reference)]
"""``provider``, ``provider/model``, ``model``, ``@host``, ``provider@host``,
``provider/model@host`` or ``*``."""


class Spec(CatalogModel):
    """Base of all specs."""

    enabled: bool = True
    """A disabled entity is as if absent on the inference plane."""


class ProviderSpec(Spec):
    """A vendor that makes models."""

    homepage_url: HttpUrl | None = None
    docs_url: HttpUrl | None = None
    status_page_url: HttpUrl | None = None
    icon: Annotated[str, Field(max_length=200)] | None = None


class Timeouts(CatalogModel):
    """Seconds; 0 means none where it is allowed."""

    connect: Annotated[float, Field(gt=0, le=300)] = 5
    first_byte: Annotated[float, Field(gt=0, le=86400)] = 120
    idle: Annotated[float, Field(gt=0, le=86400)] = 120
    total: Annotated[float, Field(ge=0, le=86400)] = 0


class Tls(CatalogModel):
    """How the certificate of a host is checked. ``ca_file`` replaces the system's store."""

    ca_file: Annotated[str, Field(max_length=4096)] | None = None
    verify: Literal[True] = True


class HostSpec(Spec):
    """An address that serves models, and how to speak to it."""

    base_url: HttpUrl
    adapter: Annotated[str, Field(min_length=1, max_length=64)]
    adapter_config: dict[str, Any] = Field(default_factory=dict)
    wire_formats: list[str] = Field(default_factory=list)
    no_auth: bool = False
    headers: Annotated[dict[HeaderName, HeaderValue], AfterValidator(_check_distinct_headers)] = (
        Field(default_factory=dict)
    )
    timeouts: Timeouts = Timeouts()
    max_connections: Annotated[int, Field(ge=1, le=65535)] = 512
    proxy_url: HttpUrl | None = None
    tls: Tls = Tls()
    proxy_mode: bool = True
    path_prefix: Annotated[str, AfterValidator(_check_path_prefix)] | None = None


class ModelBinding(CatalogModel):
    """A host that serves the model, and what it is called there."""

    host_id: EntityId
    upstream_name: ModelName | None = None
    wire_formats: list[str] = Field(default_factory=list)
    priority: Annotated[int, Field(ge=0, le=1000)] = 0
    weight: Annotated[int, Field(ge=0, le=1000)] = 1
    pricing_id: EntityId | None = None
    enabled: bool = True


class Modalities(CatalogModel):
    """What goes in and comes out (``text``, ``image``, ``audio``, …)."""

    input: list[str] = Field(default_factory=list)
    output: list[str] = Field(default_factory=list)


class Deprecation(CatalogModel):
    """When a model was deprecated, when it ends, and what follows it."""

    since: Instant | None = None
    sunset: Instant | None = None
    replacement_id: EntityId | None = None


class ModelSpec(Spec):
    """Something callers can name in ``model``."""

    name: ModelName | None = None
    provider_id: EntityId
    aliases: list[ModelAlias] = Field(default_factory=list)
    bindings: list[ModelBinding] = Field(default_factory=list)
    fallbacks: list[EntityId] = Field(default_factory=list)
    context_window: Annotated[int, Field(ge=1)] | None = None
    max_output_tokens: Annotated[int, Field(ge=1)] | None = None
    modalities: Modalities = Modalities()
    capabilities: list[str] = Field(default_factory=list)
    deprecated: Deprecation | None = None


class HostKeySpec(Spec):
    """A real credential of a host, by reference."""

    host_id: EntityId
    policy_id: EntityId
    value_from: dict[str, Any]
    weight: Annotated[int, Field(ge=0, le=1000)] = 1
    priority: Annotated[int, Field(ge=0, le=1000)] = 0


Meter = Literal["requests", "tokens", "tokens.input", "tokens.output", "concurrency", "cost"]
Strategy = Literal[
    "token-bucket", "sliding-window", "fixed-window", "session-window", "concurrency"
]
Scope = Annotated[str, Field(pattern=r"^(relay-key|policy|model|global|tag:[A-Za-z0-9_.-]{1,64})$")]


class LimitRule(CatalogModel):
    """``amount`` of ``meter`` in ``window_seconds``; the gauge ``concurrency`` has no window."""

    meter: Meter
    amount: Annotated[int, Field(ge=1)]
    window_seconds: Annotated[int, Field(ge=1, le=31_622_400)] | None = None
    strategy: Strategy = "token-bucket"

    @model_validator(mode="before")
    @classmethod
    def _gauge_by_default(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("meter") == "concurrency":
            return {"strategy": "concurrency", **data}
        return data

    @model_validator(mode="after")
    def _check_pair(self) -> Self:
        if (self.meter == "concurrency") != (self.strategy == "concurrency"):
            raise ValueError(
                f"strategy {self.strategy!r} does not go with meter {self.meter!r}: "
                "'concurrency' is a gauge, all other meters need a window"
            )
        if self.meter == "concurrency" and self.window_seconds is not None:
            raise ValueError("windowSeconds: the gauge 'concurrency' has no window")
        if self.meter != "concurrency" and self.window_seconds is None:
            raise ValueError(f"windowSeconds: needed for meter {self.meter!r}")
        return self


class RateLimitSpec(Spec):
    """Rules that policies and relay keys can refer to."""

    rules: Annotated[list[LimitRule], Field(min_length=1, max_length=32)]


class PolicyRateLimit(CatalogModel):
    """A rate limit as a policy applies it; empty ``models`` means all."""

    rate_limit_id: EntityId
    models: list[Reference] = Field(default_factory=list)
    scope: Scope = "relay-key"


class Budget(CatalogModel):
    """Money per window. ``amount_nanos`` is in billionths of ``currency``."""

    amount_nanos: Annotated[int, Field(ge=0, lt=1 << 63)]
    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")] = "USD"
    window: Literal["day", "week", "month", "total"] = "month"
    scope: Scope = "relay-key"
    action: Literal["block", "warn"] = "block"


class PolicySpec(Spec):
    """What a relay key may use, or a host key may serve."""

    models: list[Reference] = Field(default_factory=list)
    deny: list[Reference] = Field(default_factory=list)
    host_key_ids: list[EntityId] = Field(default_factory=list)
    key_selection: Literal[
        "prioritized", "round-robin", "weighted", "least-recently-used", "least-in-flight"
    ] = "prioritized"
    rate_limits: list[PolicyRateLimit] = Field(default_factory=list)
    budgets: list[Budget] = Field(default_factory=list)
    payload_logging: bool = False
    max_output_tokens: Annotated[int, Field(ge=1)] | None = None
    allow_proxy_mode: bool = True


PricingMeter = Literal[
    "tokens.input",
    "tokens.output",
    "tokens.cacheRead",
    "tokens.cacheWrite",
    "tokens.cacheWrite1h",
    "tokens.reasoning",
    "tokens.audioInput",
    "tokens.audioOutput",
    "images",
    "audioSeconds",
    "characters",
    "requests",
    "searches",
]


class Rate(CatalogModel):
    """Price of one meter, for prompts of more than ``above_tokens`` input tokens."""

    meter: PricingMeter
    unit: Literal["perMillion", "perUnit"] = "perMillion"
    amount: Annotated[Decimal, Field(ge=0, max_digits=24, decimal_places=12)]
    above_tokens: Annotated[int, Field(ge=0)] = 0


class PricingSpec(Spec):
    """A price sheet."""

    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")] = "USD"
    rates: Annotated[list[Rate], Field(min_length=1, max_length=256)]


class RelayKeySpec(Spec):
    """An inbound bearer token; the plaintext is never part of it."""

    policy_id: EntityId
    expires_at: Instant | None = None
    rate_limit_ids: list[EntityId] = Field(default_factory=list)
    tags: Tags = Field(default_factory=dict)
    payload_logging: bool = False
    allowed_cidrs: list[Cidr] = Field(default_factory=list)


class RelayKeyView(RelayKeySpec):
    """A relay key as reads show it and updates may send it back.

    ``prefix`` is the beginning of the plaintext, ``revoked_at`` when the key was ended; both are
    the server's.
    """

    prefix: str | None = None
    revoked_at: Instant | None = None
