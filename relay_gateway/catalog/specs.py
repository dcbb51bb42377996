"""Field models of the eight catalog kinds, as the control plane reads and writes them.

``valueFrom`` and ``adapterConfig`` are plain objects here; the control plane narrows them
to the models of the installed plugins.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from relay_gateway.catalog import patterns
from relay_gateway.catalog.values import (
    Amount,
    Cidr,
    EntityId,
    HeaderName,
    HeaderValue,
    HttpUrl,
    Instant,
    ModelAlias,
    ModelName,
    PathPrefix,
    ProxyUrl,
    Reference,
    Tags,
    check_distinct_headers,
)
from relay_gateway.plugin.base import CatalogModel


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
    """An address that serves models, and how to speak to it.

    ``proxy_credential`` is a reference to ``user:password`` for the egress proxy at ``proxy_url``,
    kept as a host key keeps its ``valueFrom``.
    """

    base_url: HttpUrl
    adapter: Annotated[str, Field(min_length=1, max_length=64)]
    adapter_config: dict[str, Any] = Field(default_factory=dict)
    wire_formats: list[str] = Field(default_factory=list)
    no_auth: bool = False
    headers: Annotated[dict[HeaderName, HeaderValue], AfterValidator(check_distinct_headers)] = (
        Field(default_factory=dict)
    )
    timeouts: Timeouts = Timeouts()
    max_connections: Annotated[int, Field(ge=1, le=65535)] = 512
    proxy_url: ProxyUrl | None = None
    proxy_credential: dict[str, Any] | None = None
    tls: Tls = Tls()
    proxy_mode: bool = True
    path_prefix: PathPrefix | None = None


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
    """``amount`` of ``meter`` in ``window_seconds``; the gauge ``concurrency`` has no window.

    The meter ``cost`` is in billionths of the pricing's currency. A ``shadow`` rule counts and
    reports, and refuses nothing. ``on_state_loss`` is what to do while the state store cannot be
    asked: count in each process (``local``), admit (``open``) or refuse (``closed``).
    """

    model_config = ConfigDict(json_schema_extra=patterns.GAUGE_OR_WINDOW)

    meter: Meter
    amount: Annotated[int, Field(ge=1, lt=1 << 53)]
    window_seconds: Annotated[int, Field(ge=1, le=31_622_400)] | None = None
    strategy: Strategy = "token-bucket"
    shadow: bool = False
    on_state_loss: Literal["local", "open", "closed"] = "local"

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
    amount: Amount
    above_tokens: Annotated[int, Field(ge=0)] = 0


Tier = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]{0,63}$")]
"""A word of an upstream's for how it processes a request, in lower case."""


class PricingSpec(Spec):
    """A price sheet.

    ``multipliers`` has the factor by which tokens cost more or less where the upstream says that it
    processed the request in this tier (``flex``, ``priority``, ``batch``); others cost what the
    rates say.
    """

    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")] = "USD"
    rates: Annotated[list[Rate], Field(min_length=1, max_length=256)]
    multipliers: Annotated[dict[Tier, Amount], Field(max_length=32)] = Field(default_factory=dict)


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
