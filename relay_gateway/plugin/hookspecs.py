"""The hooks: how an installed distribution hands its classes to the gateway.

A plugin is a module (or object) named by an entry point in the group ``relay_gateway``::

    [project.entry-points."relay_gateway"]
    acme = "relay_gateway_acme"

that implements one or more of the hooks below. Each is called once, at start, without arguments,
and returns classes; requests call methods of objects made from those classes and never a hook. A
hook must not do I/O, read configuration or keep state: that is what ``aopen`` of the class is for.
"""

from __future__ import annotations

from collections.abc import Sequence

import pluggy

from relay_gateway.plugin.guards import Guard
from relay_gateway.plugin.payloads import PayloadLogger
from relay_gateway.plugin.providers import UpstreamProvider
from relay_gateway.plugin.secrets import SecretBackend
from relay_gateway.plugin.seeds import CatalogSeed
from relay_gateway.plugin.state import StateStore
from relay_gateway.plugin.usage import UsageSink

PROJECT_NAME = "relay_gateway"
"""Name of the pluggy project and of the entry-point group."""

hookspec = pluggy.HookspecMarker(PROJECT_NAME)
hookimpl = pluggy.HookimplMarker(PROJECT_NAME)


@hookspec
def relay_register_secret_backends() -> Sequence[type[SecretBackend]]:  # type: ignore[empty-body]
    """Classes that turn a ``valueFrom`` reference into a credential."""


@hookspec
def relay_register_upstream_providers() -> Sequence[type[UpstreamProvider]]:  # type: ignore[empty-body]
    """Classes that speak to upstream model hosts, with the wire formats they define."""


@hookspec
def relay_register_usage_sinks() -> Sequence[type[UsageSink]]:  # type: ignore[empty-body]
    """Classes that store usage records and, where they can, read them back."""


@hookspec
def relay_register_payload_loggers() -> Sequence[type[PayloadLogger]]:  # type: ignore[empty-body]
    """Classes that store request and response bodies of callers that opted in."""


@hookspec
def relay_register_state_stores() -> Sequence[type[StateStore]]:  # type: ignore[empty-body]
    """Classes that keep limiter and breaker state, shared by instances where they can."""


@hookspec
def relay_register_guards() -> Sequence[type[Guard]]:  # type: ignore[empty-body]
    """Classes that inspect, change or refuse requests and their answers."""


@hookspec
def relay_register_catalog_seeds() -> Sequence[CatalogSeed]:  # type: ignore[empty-body]
    """Hosts, models and prices that a provider ships knowing; written once to an empty catalog."""
