"""Settings that are changed while the gateway runs: sections, their fields and their defaults.

A section is stored as the fields that somebody set; every other field has its default, also one
that a later version brings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from pydantic import Field, ValidationError

from relay_gateway.plugin.base import CatalogModel


class Section(CatalogModel):
    """Base of all sections. ``unavailable`` are fields that nothing acts on yet: they have the one
    value that describes what the gateway does, and cannot be given another."""

    unavailable: ClassVar[frozenset[str]] = frozenset()


class ProxyMode(Section):
    """Whether clients may bring their own upstream credential."""

    unavailable = frozenset({"allowUnauthenticated"})

    enabled: bool = Field(default=False, description="Whether proxy mode may be asked for.")
    allow_unauthenticated: bool = Field(
        default=False, description="Whether proxy mode works without a relay key."
    )


class PayloadLogging(Section):
    """What is kept of request and response bodies."""

    unavailable = frozenset({"enabled", "loggers", "maxBytes", "redact"})

    enabled: bool = Field(default=False, description="Whether bodies are kept at all.")
    loggers: tuple[str, ...] = Field(default=(), description="Payload loggers that receive them.")
    max_bytes: Annotated[int, Field(ge=0)] = Field(
        default=1_048_576, description="How much is kept of each body."
    )
    redact: tuple[str, ...] = Field(
        default=(), description="JSON pointers or patterns that are taken out before."
    )


class UsageLogging(Section):
    """Where usage records go; configured as `[usage_logging]` in `relay.toml`."""

    unavailable = frozenset({"sinks"})

    sinks: tuple[str, ...] = Field(default=(), description="Usage sinks that receive every record.")


class Routing(Section):
    """How persistently an upstream is looked for."""

    unavailable = frozenset({"retryBudgetRatio"})

    max_attempts: Annotated[int, Field(ge=1, le=20)] = Field(
        default=3,
        description="Attempts that may fail before a request does; turning to another key of a "
        "host is no further attempt.",
    )
    retry_budget_ratio: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.2, description="Retries per request that the gateway allows itself over all."
    )


class Inference(Section):
    """What callers of the inference plane see."""

    expose_upstream_errors: bool = Field(
        default=True,
        description="Whether error bodies of upstreams reach callers; without it they get the "
        "status and an error of the gateway.",
    )
    inject_stream_usage: bool = Field(
        default=True,
        description="Whether streams are asked for their usage where the caller did not ask.",
    )


SECTIONS: Mapping[str, type[Section]] = {
    "proxy-mode": ProxyMode,
    "payload-logging": PayloadLogging,
    "usage-logging": UsageLogging,
    "routing": Routing,
    "inference": Inference,
}
"""Every section by its name in paths."""


@dataclass(frozen=True, slots=True)
class RuntimeSettings:
    """The sections that requests read, as they are at one revision."""

    proxy_mode: ProxyMode = field(default_factory=ProxyMode)
    routing: Routing = field(default_factory=Routing)
    inference: Inference = field(default_factory=Inference)


DEFAULTS = RuntimeSettings()


def read_section(name: str, stored: Mapping[str, Any]) -> Section:
    """The section with this name as it is in force: what is ``stored``, and defaults.

    What cannot be read has its default: a database that a newer version has written to must not
    keep this one from serving.
    """
    model = SECTIONS[name]
    try:
        return model.model_validate(stored)
    except ValidationError as error:
        bad = {detail["loc"][0] for detail in error.errors(include_url=False)}
        return model.model_validate({k: v for k, v in stored.items() if k not in bad})


def read_runtime_settings(stored: Mapping[str, Mapping[str, Any]]) -> RuntimeSettings:
    """What requests read, from all stored sections by name."""
    if not stored:
        return DEFAULTS
    return RuntimeSettings(
        **{
            attribute: read_section(name, stored.get(name, {}))  # type: ignore[arg-type]
            for attribute, name in (
                ("proxy_mode", "proxy-mode"),
                ("routing", "routing"),
                ("inference", "inference"),
            )
        }
    )
