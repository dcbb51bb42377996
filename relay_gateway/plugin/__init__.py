"""The public API: all that a plugin may import, besides :mod:`relay_gateway.errors`.

A plugin distribution implements one or more ``relay_register_…`` hooks (:mod:`.hookspecs`) that
return subclasses of the base classes here.
"""

from relay_gateway.plugin.base import API_VERSION, CatalogModel, Plugin, PluginConfig
from relay_gateway.plugin.context import Clock, PluginContext, SystemClock
from relay_gateway.plugin.hookspecs import hookimpl
from relay_gateway.plugin.payloads import PayloadLogger, PayloadRecord
from relay_gateway.plugin.providers import (
    AdapterConfig,
    Classification,
    LocalAnswer,
    UpstreamCall,
    UpstreamHost,
    UpstreamProvider,
    UpstreamRequest,
    Verdict,
    encode_headers,
    retry_after,
)
from relay_gateway.plugin.secrets import ResolvedSecret, RowBinding, SecretBackend, SecretRef
from relay_gateway.plugin.seeds import CatalogSeed, EnvironmentKey, SeedEntity
from relay_gateway.plugin.state import Grant, Hold, StateStore
from relay_gateway.plugin.usage import (
    LOG_DIMENSIONS,
    LOG_FILTERS,
    Attempt,
    LogPage,
    LogQuery,
    UsageQuery,
    UsageReader,
    UsageRecord,
    UsageRow,
    UsageSink,
)
from relay_gateway.plugin.wire import (
    CONTENT,
    FAILED,
    TERMINAL,
    USAGE_ONLY,
    Dialect,
    Endpoint,
    ListedModel,
    Problem,
    Reading,
    UsageMeter,
    UsageOption,
    WireFormat,
    count,
)
from relay_gateway.secret import Secret

__all__ = [
    "API_VERSION",
    "CONTENT",
    "FAILED",
    "LOG_DIMENSIONS",
    "LOG_FILTERS",
    "TERMINAL",
    "USAGE_ONLY",
    "AdapterConfig",
    "Attempt",
    "CatalogModel",
    "CatalogSeed",
    "Classification",
    "Clock",
    "Dialect",
    "Endpoint",
    "EnvironmentKey",
    "Grant",
    "Hold",
    "ListedModel",
    "LocalAnswer",
    "LogPage",
    "LogQuery",
    "PayloadLogger",
    "PayloadRecord",
    "Plugin",
    "PluginConfig",
    "PluginContext",
    "Problem",
    "Reading",
    "ResolvedSecret",
    "RowBinding",
    "Secret",
    "SecretBackend",
    "SecretRef",
    "SeedEntity",
    "StateStore",
    "SystemClock",
    "UpstreamCall",
    "UpstreamHost",
    "UpstreamProvider",
    "UpstreamRequest",
    "UsageMeter",
    "UsageOption",
    "UsageQuery",
    "UsageReader",
    "UsageRecord",
    "UsageRow",
    "UsageSink",
    "Verdict",
    "WireFormat",
    "count",
    "encode_headers",
    "hookimpl",
    "retry_after",
]
