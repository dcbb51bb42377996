"""Settings that are changed while the gateway runs: sections, their fields and their defaults.

A section is stored as the fields that somebody set; every other field has its default, also one
that a later version brings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import msgspec
from pydantic import AfterValidator, Field, ValidationError

from relay_gateway.catalog.payload_rules import check_header, check_rule
from relay_gateway.plugin.base import CatalogModel


class Section(CatalogModel):
    """Base of all sections. Of one that is ``indivisible`` no field counts where one of them cannot
    be read."""

    indivisible: ClassVar[bool] = False


Rule = Annotated[str, Field(min_length=1, max_length=1024), AfterValidator(check_rule)]
HeaderName = Annotated[str, Field(min_length=1, max_length=128), AfterValidator(check_header)]


class ProxyMode(Section):
    """Whether clients may bring their own upstream credential."""

    enabled: bool = Field(default=False, description="Whether proxy mode may be asked for.")
    allow_unauthenticated: bool = Field(
        default=False,
        description="Whether proxy mode works without a relay key, for requests that pin a host.",
    )


class PayloadLogging(Section):
    """What is kept of request and response bodies."""

    indivisible = True  # without its rules nothing may be kept

    enabled: bool = Field(
        default=False,
        description="Whether bodies are kept at all: those of requests whose policy or relay key "
        "has `payloadLogging`.",
    )
    loggers: tuple[str, ...] = Field(default=(), description="Payload loggers that receive them.")
    max_bytes: Annotated[int, Field(ge=0, le=16_777_216)] = Field(
        default=1_048_576, description="How much is kept of each body."
    )
    redact: Annotated[tuple[Rule, ...], Field(max_length=64)] = Field(
        default=(),
        description="What is taken out before: JSON pointers, which begin with `/` and in which "
        "`*` stands for every member or element, or patterns in the syntax of RE2.",
    )
    headers: Annotated[tuple[HeaderName, ...], Field(max_length=64)] = Field(
        default=(),
        description="Names of the headers that are kept of requests and answers; never one that "
        "carries credentials.",
    )


class UsageLogging(Section):
    """Where usage records go; until it is set, where `[usage_logging]` in `relay.toml` says."""

    sinks: tuple[str, ...] = Field(default=(), description="Usage sinks that receive every record.")


class Routing(Section):
    """How persistently an upstream is looked for."""

    max_attempts: Annotated[int, Field(ge=1, le=20)] = Field(
        default=3,
        description="Attempts that may fail before a request does; turning to another key of a "
        "host is no further attempt.",
    )
    retry_budget_ratio: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.2,
        description="Retries per request of the last minute that each process allows itself, with "
        "three more a minute; 0 for none at all. Turning to another key is no retry.",
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
    stream_ping_seconds: Annotated[float, Field(ge=0, le=3600)] = Field(
        default=15,
        description="After how many quiet seconds a translated stream gets a comment that keeps "
        "its connection alive; 0 for never. Streams that are passed on as they are never get one.",
    )


SECTIONS: Mapping[str, type[Section]] = {
    "proxy-mode": ProxyMode,
    "payload-logging": PayloadLogging,
    "usage-logging": UsageLogging,
    "routing": Routing,
    "inference": Inference,
}
"""Every section by its name in paths."""


class RuntimeSettings(msgspec.Struct, frozen=True):
    """The sections that requests read, as they are at one revision."""

    proxy_mode: ProxyMode = msgspec.field(default_factory=ProxyMode)
    routing: Routing = msgspec.field(default_factory=Routing)
    inference: Inference = msgspec.field(default_factory=Inference)
    payload_logging: PayloadLogging = msgspec.field(default_factory=PayloadLogging)
    usage_logging: UsageLogging = msgspec.field(default_factory=UsageLogging)


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
        if model.indivisible:
            return model()
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
                ("payload_logging", "payload-logging"),
                ("usage_logging", "usage-logging"),
            )
        }
    )
