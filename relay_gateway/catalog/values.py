"""The values that fields of the catalog take: what they look like, and why one is refused."""

from __future__ import annotations

import ipaddress
import re
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Annotated, Any
from urllib.parse import urlsplit
from uuid import UUID

from pydantic import AfterValidator, AwareDatetime, BeforeValidator, Field

from relay_gateway.catalog import patterns
from relay_gateway.ids import is_id, is_slug

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


def check_distinct_headers(value: dict[str, str]) -> dict[str, str]:
    """Raises ``ValueError`` for names that are one header."""
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
    if "?" in value or "#" in value:
        raise ValueError("must not have a query or fragment")
    if ":" not in parts.hostname and not _HOST_NAME.fullmatch(parts.hostname):
        raise ValueError("must have a host name or address before its path")
    if any(character <= " " or character > "~" or character == "\\" for character in value):
        raise ValueError("must consist of visible ASCII characters without backslashes")
    try:
        if parts.port == 0:
            raise ValueError("port 0 cannot be dialled")
    except ValueError as error:
        raise ValueError("must have a port from 1 to 65535") from error
    return value.rstrip("/")


def _check_proxy_url(value: str) -> str:
    if urlsplit(value).username is not None:
        raise ValueError(
            "must not contain a user name or password; they go into proxyCredential, a reference "
            "like a host key's valueFrom whose value is user:password"
        )
    return _check_http_url(value)


def _check_amount(value: Any) -> Decimal:
    if isinstance(value, Decimal):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Decimal(repr(value))
    if isinstance(value, str) and _DECIMAL.fullmatch(value):
        return Decimal(value)
    raise ValueError('must be a decimal number, for example "0.15"')


@lru_cache(maxsize=65_536)  # many keys share a few
def _check_cidr(value: str) -> str:
    return str(ipaddress.ip_network(value, strict=False))


def _check_path_prefix(value: str) -> str:
    if not is_slug(value) or value in RESERVED_PREFIXES:
        raise ValueError("must be a DNS label that no path of the gateway begins with")
    return value


_DECIMAL = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,4})?")
_HOST_NAME = re.compile(patterns.HOST_NAME)
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
EntityId = Annotated[str, Field(json_schema_extra=patterns.ID), AfterValidator(_check_id)]
ModelName = Annotated[
    str,
    Field(min_length=1, max_length=MAX_MODEL_NAME, json_schema_extra=patterns.MODEL_NAME),
    AfterValidator(_check_name),
]
ModelAlias = Annotated[
    str,
    Field(min_length=1, max_length=MAX_MODEL_NAME, json_schema_extra=patterns.MODEL_ALIAS),
    AfterValidator(_check_alias),
]
_Address = Annotated[str, Field(max_length=2048, json_schema_extra=patterns.HTTP_URL)]
HttpUrl = Annotated[_Address, AfterValidator(_check_http_url)]
ProxyUrl = Annotated[_Address, AfterValidator(_check_proxy_url)]
HeaderValue = Annotated[
    str,
    Field(max_length=4096, json_schema_extra=patterns.HEADER_VALUE),
    AfterValidator(_check_header_value),
]
HeaderName = Annotated[
    str,
    Field(pattern=r"^[A-Za-z0-9!#$%&'*+.^`|~-]+$", max_length=128),
    AfterValidator(_check_header_name),
]
PathPrefix = Annotated[
    str,
    Field(json_schema_extra={**patterns.SLUG, "not": {"enum": sorted(RESERVED_PREFIXES)}}),
    AfterValidator(_check_path_prefix),
]
Instant = Annotated[AwareDatetime, AfterValidator(_to_utc)]
"""A moment with its offset from UTC, kept in UTC."""
Cidr = Annotated[str, Field(json_schema_extra=patterns.CIDR), AfterValidator(_check_cidr)]
Tags = Annotated[
    dict[
        Annotated[str, Field(min_length=1, max_length=64)],
        Annotated[str, Field(max_length=256)],
    ],
    Field(max_length=16),
]
Reference = Annotated[
    str,
    Field(min_length=1, max_length=600, json_schema_extra=patterns.REFERENCE),
    AfterValidator(_check_reference),
]
"""``provider``, ``provider/model``, ``model``, ``@host``, ``provider@host``,
``provider/model@host`` or ``*``."""
Amount = Annotated[
    Decimal,
    Field(ge=0, max_digits=24, decimal_places=12, json_schema_extra=patterns.AMOUNT),
    BeforeValidator(_check_amount),
]
