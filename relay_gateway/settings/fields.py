"""Types of single settings: how their text is read and what is refused."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator

from relay_gateway.secret import Secret

_HEADER_PREFIX = re.compile(r"[A-Za-z0-9-]*[A-Za-z0-9]-")
_ORIGIN = re.compile(r"https?://(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?")
_HOST_NAME = re.compile(r"\*|(\*\.)?[A-Za-z0-9._-]+|\[?[0-9A-Fa-f:.]+\]?")
_STATE = re.compile(r"[a-z][a-z0-9+.-]*://[!-~]*")
_SQLITE = "sqlite:///"


def _to_secret(value: object) -> Secret:
    if isinstance(value, Secret):
        return value
    if not isinstance(value, str) or not value.strip():
        raise ValueError("must be a non-empty string")
    return Secret(value.strip())


def _split(value: object) -> object:
    if isinstance(value, str):
        return tuple(part for item in value.split(",") if (part := item.strip()))
    return value


def _port_or_off(value: object) -> object:
    return None if isinstance(value, str) and value.strip().lower() == "off" else value


def _address(value: str) -> str:
    if not value or any(character.isspace() or character in "/@" for character in value):
        raise ValueError("must be an address or a host name, without a scheme or a port")
    return value.removeprefix("[").removesuffix("]")


def _header_prefix(value: str) -> str:
    if not _HEADER_PREFIX.fullmatch(value):
        raise ValueError("must be made of letters, digits and '-', and end with '-'")
    return value


def _network(value: object) -> Network:
    if isinstance(value, ipaddress.IPv4Network | ipaddress.IPv6Network):
        return value
    try:
        return ipaddress.ip_network(str(value))
    except ValueError as error:
        raise ValueError("must be a CIDR such as 10.0.0.0/8 or fd00::/8") from error


def _origin(value: str) -> str:
    match = _ORIGIN.fullmatch(value)
    if match is None:
        raise ValueError("must be scheme and host in lower case: https://admin.example.org")
    default = ":443" if value.startswith("https:") else ":80"
    return value.removesuffix(default)


def _host_name(value: str) -> str:
    if not _HOST_NAME.fullmatch(value):
        raise ValueError("must be a host name without a port, *.name for all below one, or *")
    return value.lower().removeprefix("[").removesuffix("]")


def _database(value: str) -> str:
    if value.startswith(_SQLITE) and len(value) > len(_SQLITE):
        return value
    try:
        scheme = urlsplit(value).scheme
    except ValueError as error:
        raise ValueError("is not a URL") from error
    if scheme not in {"postgresql", "postgres"}:
        raise ValueError("must begin with sqlite:/// and a path, or with postgresql://")
    return value


def _state(value: str) -> str:
    if not _STATE.fullmatch(value):
        raise ValueError("must be memory://, or a URL whose scheme an installed state store has")
    return value


Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = Annotated[str, AfterValidator(_address)]
Port = Annotated[int, Field(ge=0, le=65535)]
PortOrOff = Annotated[Port | None, BeforeValidator(_port_or_off)]
StateUrl = Annotated[str, AfterValidator(_state)]
DatabaseUrl = Annotated[str, AfterValidator(_database)]
SecretSetting = Annotated[Secret, PlainValidator(_to_secret)]
Secrets = Annotated[tuple[SecretSetting, ...], BeforeValidator(_split)]
Names = Annotated[tuple[str, ...], BeforeValidator(_split)]
HeaderPrefixes = Annotated[
    tuple[Annotated[str, AfterValidator(_header_prefix)], ...],
    BeforeValidator(_split),
    Field(min_length=1),
]
Networks = Annotated[
    tuple[Annotated[Network, PlainValidator(_network)], ...], BeforeValidator(_split)
]
Origins = Annotated[tuple[Annotated[str, AfterValidator(_origin)], ...], BeforeValidator(_split)]
HostNames = Annotated[
    tuple[Annotated[str, AfterValidator(_host_name)], ...], BeforeValidator(_split)
]
PluginSection = dict[str, dict[str, Any]]
"""The tables of one kind of plugin: name of the plugin → its keys and values."""
